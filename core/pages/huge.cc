#include "core/pages/huge.h"

#include "core/base/options.h"
#include "core/os/lock.h"
#include "core/os/os.h"
#include "core/pages/page_map.h"
#include "core/pages/span_pool.h"

namespace seemalloc::pages {

namespace {

struct Mapping {
  uintptr_t start;
  size_t bytes;
  uint64_t freed_ns;
  bool clean;  // unmapping was refused: kept for its address space, its memory is gone
};

constexpr unsigned kCacheSlots = 128;
// Of all cached mappings together, besides half of what is in use. One may be as large, or an eighth of what is in use: a
// growing vector leaves ever larger ones behind.
constexpr size_t kMaxCachedBytes = 32 * MiB;
// What a request leaves of a cached mapping is worth keeping from here on.
constexpr size_t kMinRestBytes = 256 * KiB;

Lock lock;
Mapping cache[kCacheSlots];
unsigned cached = 0;
size_t cached_bytes = 0;
SpanList in_use;
size_t used_bytes = 0;

size_t max_cached_bytes() { return kMaxCachedBytes + used_bytes / 2; }

size_t rounded(size_t bytes) { return round_up(bytes, os::page_bytes() > kPageBytes ? os::page_bytes() : kPageBytes); }

void take_slot_locked(unsigned slot, Mapping* out) {
  *out = cache[slot];
  cache[slot] = cache[--cached];
  if (!out->clean) cached_bytes -= out->bytes;
}

// False when every slot is taken. Neighbours become one: rests would otherwise fill the slots.
bool put_slot_locked(Mapping mapping) {
  for (unsigned i = 0; i < cached;) {
    const Mapping& m = cache[i];
    bool before = m.start + m.bytes == mapping.start;
    if (m.clean != mapping.clean || (!before && mapping.start + mapping.bytes != m.start)) {
      i++;
      continue;
    }
    Mapping neighbour{};
    take_slot_locked(i, &neighbour);
    if (before) mapping.start = neighbour.start;
    mapping.bytes += neighbour.bytes;
    if (neighbour.freed_ns > mapping.freed_ns) mapping.freed_ns = neighbour.freed_ns;
    i = 0;
  }
  if (cached == kCacheSlots) return false;
  cache[cached++] = mapping;
  if (!mapping.clean) cached_bytes += mapping.bytes;
  return true;
}

// Where `bytes` more would be too much: takes out the mapping with memory behind it that was freed longest ago.
bool take_victim_locked(size_t bytes, Mapping* victim) {
  if (cached < kCacheSlots && cached_bytes + bytes <= max_cached_bytes()) return false;
  unsigned oldest = kCacheSlots;
  for (unsigned i = 0; i < cached; i++) {
    if (!cache[i].clean && (oldest == kCacheSlots || cache[i].freed_ns < cache[oldest].freed_ns)) oldest = i;
  }
  if (oldest == kCacheSlots) return false;
  take_slot_locked(oldest, victim);
  return true;
}

// The smallest cached mapping that fits, else the largest one of at least a quarter: its memory is worth moving. A rest
// that is worth keeping stays in the cache.
bool take_cached(size_t bytes, size_t alignment, Mapping* out) {
  LockGuard guard(lock);
  unsigned best = kCacheSlots;
  for (unsigned i = 0; i < cached; i++) {
    const Mapping& m = cache[i];
    if (m.bytes < bytes / 4 || (m.start & (alignment - 1)) != 0) continue;
    bool better = best == kCacheSlots || (cache[best].bytes < bytes ? m.bytes > cache[best].bytes
                                                                    : m.bytes >= bytes && m.bytes < cache[best].bytes);
    if (better) best = i;
  }
  if (best == kCacheSlots) return false;
  take_slot_locked(best, out);
  if (out->bytes < bytes + bytes / 8 || out->bytes - bytes < kMinRestBytes) return true;
  Mapping rest{out->start + bytes, out->bytes - bytes, out->freed_ns, out->clean};
  if (!page_map.reserve(rest.start, kPageBytes)) return true;
  page_map.set_free(rest.start, kPageBytes);
  if (put_slot_locked(rest)) out->bytes = bytes;
  return true;
}

// Gives a mapping back. Where unmapping is refused (too many mappings) its memory goes and the address space is kept.
void discard(Mapping mapping) {
  page_map.set_foreign(mapping.start, kPageBytes);
  if (os::unmap(reinterpret_cast<void*>(mapping.start), mapping.bytes)) return;
  mapping.clean = os::purge(reinterpret_cast<void*>(mapping.start), mapping.bytes);
  mapping.freed_ns = UINT64_MAX;  // never tried again by age
  LockGuard guard(lock);
  put_slot_locked(mapping);  // no slot: address space is lost
}

// Makes a mapping `bytes` long, moving its page tables when there is no room behind it. False when refused: nothing changed.
bool remap(Mapping* mapping, size_t bytes) {
  void* start = reinterpret_cast<void*>(mapping->start);
  void* resized = os::remap(start, mapping->bytes, bytes, nullptr);
  if (resized == nullptr) {
    // To a place of our choosing: the kernel's own choice need not be aligned to our pages.
    void* target = os::map_aligned(bytes, kPageBytes < os::page_bytes() ? os::page_bytes() : kPageBytes);
    if (target == nullptr) return false;
    // Forgotten before it moves: from then on the old address may be another's.
    page_map.set_foreign(mapping->start, kPageBytes);
    if (!page_map.reserve(reinterpret_cast<uintptr_t>(target), kPageBytes) ||
        os::remap(start, mapping->bytes, bytes, target) == nullptr) {
      os::unmap(target, bytes);
      return false;
    }
    resized = target;
  }
  mapping->start = reinterpret_cast<uintptr_t>(resized);
  mapping->bytes = bytes;
  return true;
}

void enter(Span* span, const Mapping& mapping) {
  span->start = mapping.start;
  span->bytes = mapping.bytes;
  span->known_zero = mapping.clean;
  span->set_live(1);
  page_map.set(span->start, kPageBytes, span);
  LockGuard guard(lock);
  in_use.push_front(span);
  used_bytes += span->bytes;
}

}  // namespace

Span* allocate_huge(size_t bytes, size_t alignment) {
  bytes = rounded(bytes);
  if (alignment < kPageBytes) alignment = kPageBytes;
  Mapping mapping{};
  bool have = take_cached(bytes, alignment, &mapping);
  // What is longer than asked for, by less than is worth keeping, stays so; what is shorter grows.
  if (have && mapping.bytes < bytes && (alignment > kPageBytes || !remap(&mapping, bytes))) {
    discard(mapping);
    have = false;
  }
  if (!have) {
    void* start = os::map_aligned(bytes, alignment < os::page_bytes() ? os::page_bytes() : alignment);
    if (start == nullptr) return nullptr;
    mapping = Mapping{reinterpret_cast<uintptr_t>(start), bytes, 0, true};
  }
  Span* span = page_map.reserve(mapping.start, kPageBytes) ? take_span(SpanKind::kHuge) : nullptr;
  if (span == nullptr) {
    discard(mapping);
    return nullptr;
  }
  enter(span, mapping);
  return span;
}

void release_huge(Span* span) {
  Mapping mapping{span->start, span->bytes, os::coarse_monotonic_ns(), false};
  page_map.set_free(mapping.start, kPageBytes);
  bool keep = options::get(options::Id::purge_delay) != 0;
  {
    LockGuard guard(lock);
    in_use.remove(span);
    used_bytes -= span->bytes;
    keep = keep && mapping.bytes <= (kMaxCachedBytes < used_bytes / 8 ? used_bytes / 8 : kMaxCachedBytes);
  }
  give_span(span);
  for (;;) {
    Mapping victim{};
    {
      LockGuard guard(lock);
      if (keep && !take_victim_locked(mapping.bytes, &victim)) {
        if (put_slot_locked(mapping)) return;
        keep = false;
      }
    }
    discard(keep ? victim : mapping);
    if (!keep) return;
  }
}

bool resize_huge(Span* span, size_t bytes) {
  bytes = rounded(bytes);
  if (bytes == span->bytes) return true;
  Mapping mapping{span->start, span->bytes, 0, false};
  if (!remap(&mapping, bytes)) {
    page_map.set(span->start, kPageBytes, span);
    return false;
  }
  LockGuard guard(lock);
  used_bytes += bytes - span->bytes;
  span->bytes = bytes;
  span->start = mapping.start;
  page_map.set(span->start, kPageBytes, span);
  return true;
}

size_t purge_huge(uint64_t cutoff_ns) {
  size_t purged_bytes = 0;
  for (unsigned tries = 0; tries < kCacheSlots; tries++) {
    Mapping victim{};
    {
      LockGuard guard(lock);
      for (unsigned i = 0; i < cached; i++) {
        if (cache[i].freed_ns >= cutoff_ns) continue;
        take_slot_locked(i, &victim);
        break;
      }
    }
    if (victim.bytes == 0) break;
    purged_bytes += victim.bytes;
    discard(victim);
  }
  return purged_bytes;
}

bool anything_cached_huge() {
  LockGuard guard(lock);
  for (unsigned i = 0; i < cached; i++) {
    if (!cache[i].clean) return true;
  }
  return false;
}

HugeStatistics huge_statistics(bool with_residency) {
  HugeStatistics statistics{};
  LockGuard guard(lock);
  statistics.spans = in_use.size();
  statistics.used_bytes = used_bytes;
  for (unsigned i = 0; i < cached; i++) statistics.cached_bytes += cache[i].clean ? 0 : cache[i].bytes;
  if (with_residency) {
    for (Span* span = in_use.front(); span != nullptr; span = span->next) {
      statistics.resident_bytes += os::resident_bytes(reinterpret_cast<void*>(span->start), span->bytes);
    }
  }
  return statistics;
}

void for_each_huge_span(void (*f)(void* context, Span* span), void* context) {
  LockGuard guard(lock);
  for (Span* span = in_use.front(); span != nullptr; span = span->next) f(context, span);
}

void lock_huge_for_fork() { lock.lock_for_fork(); }
void unlock_huge_after_fork() { lock.unlock_after_fork(); }

}  // namespace seemalloc::pages

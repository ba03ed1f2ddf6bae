#include "core/pages/huge/huge.h"

#include <arch_words.h>

#include <atomic>

#include "core/base/check.h"
#include "core/base/options.h"
#include "core/os/kernel/memory.h"
#include "core/os/runtime/lock.h"
#include "core/pages/huge/huge_cache.h"
#include "core/pages/huge/huge_moving.h"
#include "core/pages/huge/huge_space.h"
#include "core/pages/huge/huge_state.h"
#include "core/pages/policy/refaults.h"
#include "core/pages/span/memory_account.h"
#include "core/pages/span/page_map.h"
#include "core/pages/span/span_pool.h"

namespace seemalloc::pages {

namespace huge {

constinit Lock lock;
constinit HugeCache cache;
constinit UnmapMisses unmapped_immediately, unmapped_early;
constinit SpanList in_use;
constinit size_t used_bytes = 0, memory_bytes = 0, peak_bytes = 0;
constinit size_t max_used_bytes = 0, max_spans = 0;
constinit std::atomic<uint32_t> moving_blocks{0};

void set_sizes_locked(Span* span, const Range& memory, size_t bytes) {
  DCHECK(lock.is_held());
  DCHECK(span->kind == SpanKind::kHuge && bytes != 0 && memory.bytes >= bytes);
  DCHECK((memory.start | memory.bytes | bytes) % huge_granule() == 0);
  DCHECK(used_bytes >= span->bytes && memory_bytes >= memory_of(span).bytes);
  racy_store(used_bytes, used_bytes + bytes - span->bytes);
  memory_bytes += memory.bytes - memory_of(span).bytes;
  if (used_bytes > peak_bytes) peak_bytes = used_bytes;
  if (used_bytes > max_used_bytes) max_used_bytes = used_bytes;
  span->start = memory.start;
  span->bytes = bytes;
  span->capacity = static_cast<uint32_t>((memory.bytes - bytes) >> kPageShift);
}

void set_sizes(Span* span, const Range& memory, size_t bytes) {
  AccountingGuard guard;
  set_sizes_locked(span, memory, bytes);
}

namespace {

struct HugeAllocation {
  Range range;
  bool clean;          // reads as zero
  bool dense;          // most of it is resident
  size_t fresh_bytes;  // the part that is new to the heap
};

// Moves cached extents that are not adjacent together, with fresh memory behind them.
bool gather_cached_extents(size_t bytes, size_t alignment, HugeAllocation* out) {
  // Memory counts twice while it is being moved. Near a limit it is unmapped instead.
  if (options::get(options::Id::heap_limit) != 0) return false;
  {
    LockGuard guard(lock);
    if (cache.dirty_bytes() < bytes / 4) return false;
  }
  MoveTarget target;
  if (!may_move() || !map_huge(bytes, alignment, &target.range)) return false;
  if (!fill_from_cache(target.range.start, &target)) {
    discard_target(target);
    return false;
  }
  *out = HugeAllocation{target.range, false, false, fresh_bytes(bytes, target)};
  return true;
}

// ---- taking ----

bool take_cached(size_t bytes, size_t alignment, ScopedCharge* hold, HugeAllocation* out) {
  AccountingGuard guard;
  Extent extent;
  if (!cache.take_fit(bytes, alignment, kMinSplitRestBytes, &extent)) return false;
  DCHECK(extent.bytes >= bytes && extent.start % alignment == 0);
  hold->add(extent.bytes);
  *out = HugeAllocation{Range{extent.start, extent.bytes}, false, !extent.sparse, 0};
  return true;
}

bool take_memory(size_t bytes, size_t alignment, ScopedCharge* hold, HugeAllocation* out) {
  if (take_cached(bytes, alignment, hold, out)) return true;
  if (!hold->charge(bytes)) return false;
  *out = HugeAllocation{};
  bool kept = take_retained_huge(bytes, alignment, &out->range);
  if (!kept && gather_cached_extents(bytes, alignment, out)) return true;
  out->clean = true;
  out->fresh_bytes = bytes;
  if (!kept && !map_huge(bytes, alignment, &out->range)) return false;
  note_huge_mapped(bytes, was_unmapped_too_soon(bytes));
  return true;
}

}  // namespace
}  // namespace huge

Span* allocate_huge(size_t bytes, size_t alignment) {
  DCHECK(alignment == 0 || is_power_of_two(alignment));
  bytes = huge::rounded(bytes);
  if (alignment < kPageBytes) alignment = kPageBytes;
  huge::HugeAllocation memory;
  ScopedCharge hold;
  if (!huge::take_memory(bytes, alignment, &hold, &memory)) return nullptr;
  Span* span = page_map.reserve(memory.range.start, kPageBytes)
                   ? allocate_span_record(SpanKind::kHuge)
                   : nullptr;
  if (span == nullptr) {
    discard_huge(memory.range);
    return nullptr;
  }
  huge::note_if_any(memory.fresh_bytes);
  span->bytes = 0;
  span->known_zero = memory.clean;
  span->known_dense = memory.dense;
  span->set_live(1);
  huge::AccountingGuard guard;
  DCHECK(memory.range.start % alignment == 0);
  huge::set_sizes_locked(span, memory.range, bytes);
  page_map.set(span->start, kPageBytes, span);
  huge::in_use.push_front(span);
  if (huge::in_use.size() > huge::max_spans) huge::max_spans = huge::in_use.size();
  return span;
}

void release_huge(Span* span) {
  DCHECK(span->kind == SpanKind::kHuge && span->region == nullptr);
  DCHECK(page_map.span_of(huge::pointer(span->start)) == span);
  Range memory = huge::memory_of(span);
  bool known_dense = span->known_dense;
  page_map.set_free(memory.start, kPageBytes);
  ScopedCharge hold;
  {
    huge::AccountingGuard guard;
    hold.add(memory.bytes);
    DCHECK(huge::used_bytes >= span->bytes && huge::memory_bytes >= memory.bytes);
    huge::in_use.remove(span);
    racy_store(huge::used_bytes, huge::used_bytes - span->bytes);
    huge::memory_bytes -= memory.bytes;
  }
  free_span_record(span);
  huge::cache_or_discard(memory, known_dense);
}

size_t huge_used_bytes() { return racy_load(huge::used_bytes); }

HugeTotals huge_totals(bool new_window) {
  LockGuard guard(huge::lock);
  HugeTotals totals{huge::used_bytes, huge::peak_bytes, huge::cache.dirty_bytes()};
  if (new_window) huge::peak_bytes = huge::used_bytes;
  return totals;
}

namespace {
constexpr uint32_t kSpansPerLock = 32;  // spans seen before the huge::lock is released

// Seen spans move to the end of the list, whose order has no meaning.
Span* rotate_to_next_locked() {
  DCHECK(huge::lock.is_held() && huge::in_use.size() != 0);
  Span* span = huge::in_use.front();
  huge::in_use.remove(span);
  huge::in_use.push_back(span);
  return span;
}

}  // namespace

void for_each_huge_memory(void (*f)(void* context, const HugeMemory& memory), void* context) {
  for (uint32_t left = UINT32_MAX; left != 0;) {
    HugeMemory seen[kSpansPerLock];
    uint32_t count = 0;
    {
      LockGuard guard(huge::lock);
      if (left > huge::in_use.size()) left = huge::in_use.size();
      for (; count < kSpansPerLock && left != 0; left--) {
        const Span* span = rotate_to_next_locked();
        seen[count++] = {span->start, span->bytes, huge::reserve_of(span)};
      }
    }
    for (uint32_t i = 0; i < count; i++) f(context, seen[i]);
  }
}

HugeStatistics huge_statistics() {
  LockGuard guard(huge::lock);
  return {.spans = huge::in_use.size(),
          .used_bytes = huge::used_bytes,
          .cached_bytes = huge::cache.dirty_bytes(),
          .memory_bytes = huge::memory_bytes,
          .max_spans = huge::max_spans,
          .max_used_bytes = huge::max_used_bytes};
}

void for_each_huge_span(void (*f)(void* context, Span* span), void* context) {
  LockGuard guard(huge::lock);
  for (Span* span = huge::in_use.front(); span != nullptr; span = span->next) f(context, span);
}

void visit_huge_spans(void (*f)(void* context, Span* span), void* context) {
  for (uint32_t left = UINT32_MAX; left != 0;) {
    LockGuard guard(huge::lock);
    if (left > huge::in_use.size()) left = huge::in_use.size();
    for (uint32_t i = 0; i < kSpansPerLock && left != 0; i++, left--)
      f(context, rotate_to_next_locked());
  }
}

void lock_huge_for_fork() {
  huge::lock.lock_for_fork();
  lock_huge_space_for_fork();
}
void unlock_huge_after_fork() {
  unlock_huge_space_after_fork();
  huge::lock.unlock_after_fork();
}
void report_huge_bytes_in_child() {
  huge::moving_blocks.store(0);  // the moving threads are not in the child
  memory_account.set_huge_bytes(huge::account_bytes());
}

#ifdef SEEMALLOC_DEBUG
const char* verify_huge() {
  LockGuard guard(huge::lock);
  if (const char* broken = huge::in_use.verify()) return broken;
  size_t used = 0, memory = 0;
  for (const Span* span = huge::in_use.front(); span != nullptr; span = span->next) {
    const Span* entry = page_map.span_of(huge::pointer(span->start));
    // Free while the block is being released; foreign or another block's while realloc moves the
    // block.
    bool leaves = entry->kind == SpanKind::kFree || entry->kind == SpanKind::kForeign ||
                  huge::moving_blocks.load() != 0;
    if (span->kind != SpanKind::kHuge || (entry != span && !leaves))
      return "invariant huge.1: each block in use is in the page map";
    used += span->bytes;
    memory += huge::memory_of(span).bytes;
  }
  if (used != huge::used_bytes || memory != huge::memory_bytes)
    return "invariant huge.2: the counters are the sums over the blocks in use";
  return huge::cache.verify();
}
#endif

}  // namespace seemalloc::pages

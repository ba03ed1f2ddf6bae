#include "core/pages/huge/huge.h"

#include <arch_words.h>
#include <string.h>

#include <atomic>

#include "core/base/check.h"
#include "core/base/options.h"
#include "core/os/kernel/clock.h"
#include "core/os/kernel/memory.h"
#include "core/os/runtime/lock.h"
#include "core/os/runtime/scratch.h"
#include "core/pages/huge/huge_cache.h"
#include "core/pages/huge/huge_space.h"
#include "core/pages/policy/purge_delay.h"
#include "core/pages/policy/purge_policy.h"
#include "core/pages/policy/refaults.h"
#include "core/pages/policy/unmap_misses.h"
#include "core/pages/span/growth.h"
#include "core/pages/span/memory_account.h"
#include "core/pages/span/page_map.h"
#include "core/pages/span/span_pool.h"

namespace seemalloc::pages {

namespace {

// The rest of a run behind a block is kept for other requests if it has at least this many bytes; a
// smaller rest stays with the block.
constexpr size_t kMinSplitRestBytes = 256 * KiB;
// Smaller extents are not moved: each call costs as much as about 10 page faults.
constexpr size_t kMinMovedBytes = 64 * KiB;
constexpr unsigned kMaxMovedExtents = 32;
// A block with more than one part per this many bytes is cheaper to copy than to move.
constexpr size_t kBytesPerMove = 128 * KiB;
// Largest range that is cached, unless an eighth of the bytes in use is more. A growing vector
// leaves ever larger ranges behind, and they are of no use if only small blocks follow.
constexpr size_t kMaxCachedRangeBytes = 32 * MiB;
// Most that all sparse ranges together may have, unless an eighth of the bytes in use is more. Each
// keeps the pages of the largest block it has held, which the next block does not need. With half
// of this limit, large_blocks 10 takes
// 10 % less memory and 40 % more time.
constexpr size_t kMaxSparseBytes = 128 * MiB;
// Each refused move may cost address space. After this many, a move is tried only now and then
// until everything is purged.
constexpr unsigned kMaxRefusedMoves = 8;
// Time between such tries, in purge delays; one second is added.
constexpr unsigned kDelaysBetweenMoveRetries = 64;

constinit Lock lock;
constinit HugeCache cache;
// Freed memory that was unmapped immediately: in eager mode, or because it exceeded the cache's
// limit.
constinit UnmapMisses unmapped_immediately;
// Unmapped on request, under memory pressure, or because the cache was full: only counted.
constinit UnmapMisses unmapped_early;
constinit SpanList in_use;
constinit size_t used_bytes = 0;
constinit size_t memory_bytes = 0;                   // of the blocks in use, with their reserves
constinit size_t peak_bytes = 0;                     // highest used_bytes in this window (purge.h)
constinit size_t max_used_bytes = 0, max_spans = 0;  // highest values since the process started
constinit std::atomic<unsigned> refused_moves{0};
constinit std::atomic<uint64_t> last_refused_ns{0};
// Blocks that realloc moves at this moment. Another block may take the old addresses before the
// lock is taken for the new ones (verify_huge).
constinit std::atomic<uint32_t> moving_blocks{0};

size_t account_bytes() { return memory_bytes + cache.dirty_bytes(); }

// Holds the lock while the counters change, and reports the new total to the backing. Memory that
// leaves the counters must be covered by a Hold first.
class AccountingGuard {
 public:
  AccountingGuard() { lock.lock(); }
  ~AccountingGuard() {
    memory_account.set_huge_bytes(account_bytes());
    lock.unlock();
  }
  AccountingGuard(const AccountingGuard&) = delete;
  AccountingGuard& operator=(const AccountingGuard&) = delete;
};

void* pointer(uintptr_t address) { return reinterpret_cast<void*>(address); }

size_t rounded(size_t bytes) { return round_up(bytes, huge_granule()); }

// A block's memory is its bytes and the reserve behind them; the span stores the reserve in pages.
size_t reserve_of(const Span* span) { return size_t{span->capacity} << kPageShift; }
Range memory_of(const Span* span) { return Range{span->start, span->bytes + reserve_of(span)}; }

// The current time in steps of an eighth of the purge delay: adjacent ranges freed in the same step
// are cached as one. Memory that is never purged has no age.
uint64_t current_free_step_ns() {
  if (purge_mode() == options::Purge::kNever) return 0;
  uint64_t step = purge_delay_ns() / 8 + 1;
  return os::coarse_monotonic_ns() / step * step;
}

void discard_early(const Range& range) {
  {
    LockGuard guard(lock);
    unmapped_early.note_unmapped(range.bytes, os::coarse_monotonic_ns());
  }
  discard_huge(range, os::Reason::kDecay);
}

// Caches memory for the next request. If there is no free record, the range that was freed first is
// unmapped.
void put_in_cache(const Extent& extent) {
  DCHECK(extent.bytes != 0 && (extent.start | extent.bytes) % huge_granule() == 0);
  for (;;) {
    Extent oldest;
    ScopedCharge hold;
    {
      AccountingGuard guard;
      if (cache.put(extent)) return;
      if (!cache.take_oldest(&oldest)) break;
      hold.add(oldest.bytes);
    }
    discard_early(Range{oldest.start, oldest.bytes});
  }
  discard_early(Range{extent.start, extent.bytes});
}

// ---- moving ----

// The range that memory is moved to. A refused move may leave a hole in it, which may already be
// mapped by another thread.
struct MoveTarget {
  Range range{0, 0};
  Range hole{0, 0};
  uintptr_t filled = range.end();  // the range has moved extents from this address on
  size_t reused = 0;               // bytes of these extents: memory that we already had
};

void discard_target(const MoveTarget& target) {
  DCHECK(target.hole.bytes == 0 || target.hole.start >= target.range.start);
  DCHECK(target.hole.bytes == 0 || target.hole.end() <= target.range.end());
  if (target.hole.bytes == 0) return discard_huge(target.range);
  discard_huge(Range{target.range.start, target.hole.start - target.range.start});
  discard_huge(Range{target.hole.end(), target.range.end() - target.hole.end()});
}

// Moves one part to `at` in the target, with `room` bytes mapped behind it (os::move_pages), which
// the next move replaces.
bool move_part(const Range& part, uintptr_t at, size_t room, MoveTarget* target) {
  DCHECK(part.bytes != 0 && at >= target->range.start &&
         at + part.bytes + room <= target->range.end());
  forget_huge_mapping(part);
  Range moved{at, part.bytes + room};
  os::Moved result =
      os::move_pages(pointer(part.start), part.bytes, pointer(at), moved.bytes, os::Reason::kHuge);
  if (result == os::Moved::kYes) {
    replace_huge_mapping(moved);
    return true;
  }
  last_refused_ns.store(os::coarse_monotonic_ns(), std::memory_order_relaxed);
  refused_moves.fetch_add(1, std::memory_order_relaxed);
  if (result == os::Moved::kRefusedTargetLost) {
    target->hole = moved;
    note_lost_huge_mapping(moved);
  }
  note_huge_mapping(part);
  return false;
}

// Moves an extent to `at`. If a move is refused, unmaps the rest of the extent. Also unmaps the
// last granule of an extent that would reach the end of the target, because every move needs room
// behind it.
bool move_extent(Range extent, uintptr_t at, MoveTarget* target) {
  DCHECK(at + extent.bytes <= target->range.end());
  if (at + extent.bytes == target->range.end()) {
    extent.bytes -= huge_granule();
    discard_huge(Range{extent.end(), huge_granule()});
  }
  while (extent.bytes != 0) {
    Range part = first_single_mapping(extent);
    if (!move_part(part, at, huge_granule(), target)) {
      discard_huge(extent);
      return false;
    }
    at += part.bytes;
    extent = Range{part.end(), extent.bytes - part.bytes};
  }
  return true;
}

bool may_move() {
  if (refused_moves.load(std::memory_order_relaxed) < kMaxRefusedMoves) return true;
  uint64_t wait_ns = kSecondNs + kDelaysBetweenMoveRetries *
                                     options::get(options::Id::purge_delay) * kMillisecondNs;
  if (os::coarse_monotonic_ns() - last_refused_ns.load(std::memory_order_relaxed) < wait_ns)
    return false;
  refused_moves.store(kMaxRefusedMoves - 1, std::memory_order_relaxed);
  return true;
}

// Moves cached extents into the target from `at` on, until the target is full or no suitable extent
// is left. Returns false when a move was refused: the caller must abandon the target.
bool fill_from_cache(uintptr_t at, MoveTarget* target) {
  struct Extents {
    Extent at[kMaxMovedExtents];
  };
  os::Scratch<Extents> memory;
  if (!memory) return true;
  Extent* extents = memory->at;
  unsigned count = 0;
  if (may_move() && boundaries_are_known()) {
    AccountingGuard guard;
    count = cache.take_extents(target->range.end() - at, kMinMovedBytes, extents, kMaxMovedExtents);
  }
  DCHECK(at >= target->range.start && count <= kMaxMovedExtents);
  if (count != 0) target->filled = at;
  bool sound = true;
  for (unsigned i = 0; i < count; i++) {
    const Extent& extent = extents[i];
    if (!sound) {
      put_in_cache(extent);
      continue;
    }
    sound = move_extent(Range{extent.start, extent.bytes}, at, target);
    at += extent.bytes;
    target->reused += extent.bytes;
  }
  return sound;
}

// Of `bytes` that were added to blocks, the part that was not moved into the target.
size_t fresh_bytes(size_t bytes, const MoveTarget& target) {
  return bytes > target.reused ? bytes - target.reused : 0;
}

void note_if_any(size_t bytes) {
  if (bytes != 0) note_growth(bytes);
}

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

// Whether memory that left the cache before its delay would have served this request.
bool was_unmapped_too_soon(size_t bytes) {
  LockGuard guard(lock);
  // In eager mode purge_delay_ns() is the delay of memory that is too small to be purged
  // immediately, which does not apply to huge memory.
  uint64_t now = os::coarse_monotonic_ns(),
           delay = purge_mode() == options::Purge::kEager ? PurgeDelay::kFirstNs : purge_delay_ns();
  return unmapped_immediately.note_mapped(bytes, now, delay) ||
         unmapped_early.note_mapped(bytes, now, delay);
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

}  // namespace

// Caches a range that the kernel could neither unmap nor purge. Its age excludes it from further
// purges. If there is no free record, the range is lost.
void cache_unreleasable_huge(const Range& range) {
  AccountingGuard guard;
  cache.put(Extent{range.start, range.bytes, UINT64_MAX, false});
}

Span* allocate_huge(size_t bytes, size_t alignment) {
  DCHECK(alignment == 0 || is_power_of_two(alignment));
  bytes = rounded(bytes);
  if (alignment < kPageBytes) alignment = kPageBytes;
  HugeAllocation memory;
  ScopedCharge hold;
  if (!take_memory(bytes, alignment, &hold, &memory)) return nullptr;
  Span* span = page_map.reserve(memory.range.start, kPageBytes)
                   ? allocate_span_record(SpanKind::kHuge)
                   : nullptr;
  if (span == nullptr) {
    discard_huge(memory.range);
    return nullptr;
  }
  note_if_any(memory.fresh_bytes);
  span->bytes = 0;
  span->known_zero = memory.clean;
  span->known_dense = memory.dense;
  span->set_live(1);
  AccountingGuard guard;
  DCHECK(memory.range.start % alignment == 0);
  set_sizes_locked(span, memory.range, bytes);
  page_map.set(span->start, kPageBytes, span);
  in_use.push_front(span);
  if (in_use.size() > max_spans) max_spans = in_use.size();
  return span;
}

namespace {
// An eighth of the bytes in use, but at least `least`.
size_t eighth_of_used_locked(size_t least) {
  return used_bytes / 8 > least ? used_bytes / 8 : least;
}

// The most that the cache keeps of a freed range: an eighth of the bytes in use. It is raised to
// the recent peak if such memory has been needed again, or if the range is larger than all memory
// in use: it served a whole phase of the program, and the next such phase needs it again.
size_t max_cached_locked(size_t bytes) {
  bool again = unmapped_immediately.worth_keeping(os::coarse_monotonic_ns(), purge_delay_ns());
  size_t most = eighth_of_used_locked(kMaxCachedRangeBytes);
  size_t kept = used_bytes + cache.dirty_bytes();
  if ((again || bytes > used_bytes) && peak_bytes > kept + most) most = peak_bytes - kept;
  // Memory that was needed again may take a quarter of the limit: it has just been in use, and it
  // is purged when memory gets short.
  size_t reserve = again && !under_memory_pressure.load(std::memory_order_relaxed)
                       ? 4 * max_cached_bytes()
                       : max_cached_bytes();
  return most < reserve ? most : reserve;
}

// Whether a freed range is unmapped immediately. Remembers it if so.
bool must_unmap_immediately(const Range& range, options::Purge mode) {
  if (mode == options::Purge::kNever) return false;
  LockGuard guard(lock);
  if (mode == options::Purge::kBalanced && range.bytes <= max_cached_locked(range.bytes))
    return false;
  unmapped_immediately.note_unmapped(range.bytes, os::coarse_monotonic_ns());
  return true;
}

// Takes the sparse range that was freed first, if all sparse ranges and `bytes` more exceed their
// limit.
bool take_excess_sparse(size_t bytes, Range* out, ScopedCharge* hold) {
  AccountingGuard guard;
  size_t most = eighth_of_used_locked(kMaxSparseBytes);
  Extent oldest;
  if (cache.sparse_bytes() + bytes <= most || !cache.take_oldest_sparse(&oldest)) return false;
  hold->add(oldest.bytes);
  *out = Range{oldest.start, oldest.bytes};
  return true;
}

void make_room_for_sparse(size_t bytes) {
  for (;;) {
    Range oldest;
    ScopedCharge hold;
    if (!take_excess_sparse(bytes, &oldest, &hold)) return;
    discard_early(oldest);
  }
}

void cache_or_discard(const Range& range, bool known_dense) {
  options::Purge mode = purge_mode();
  if (must_unmap_immediately(range, mode)) return discard_huge(range, os::Reason::kDecay);
  // The kernel checks each page, so the query is skipped for memory that is known to be dense
  // because it is reused often.
  bool sparse = !known_dense && os::estimate_resident_bytes(pointer(range.start), range.bytes,
                                                            os::Reason::kHuge) < range.bytes / 2;
  if (sparse && mode == options::Purge::kBalanced) make_room_for_sparse(range.bytes);
  put_in_cache(Extent{range.start, range.bytes, current_free_step_ns(), sparse});
}
}  // namespace

void release_huge(Span* span) {
  DCHECK(span->kind == SpanKind::kHuge && span->region == nullptr);
  DCHECK(page_map.span_of(pointer(span->start)) == span);
  Range memory = memory_of(span);
  bool known_dense = span->known_dense;
  page_map.set_free(memory.start, kPageBytes);
  ScopedCharge hold;
  {
    AccountingGuard guard;
    hold.add(memory.bytes);
    DCHECK(used_bytes >= span->bytes && memory_bytes >= memory.bytes);
    in_use.remove(span);
    racy_store(used_bytes, used_bytes - span->bytes);
    memory_bytes -= memory.bytes;
  }
  free_span_record(span);
  cache_or_discard(memory, known_dense);
}

// ---- resizing ----

namespace {

// For a size that the memory of the block already covers. The excess of a block that shrinks is
// freed if it is large enough to be worth a system call.
void resize_within(Span* span, size_t bytes) {
  Range memory = memory_of(span);
  DCHECK(bytes != 0 && bytes <= memory.bytes);
  Range rest{memory.start + bytes, memory.bytes - bytes};
  bool give = bytes < span->bytes && rest.bytes >= kMinSplitRestBytes;
  ScopedCharge hold;
  if (give) {
    hold.add(rest.bytes);
    memory.bytes = bytes;
  }
  set_sizes(span, memory, bytes);
  if (give) cache_or_discard(rest, span->known_dense);
}

// The size to grow to. A block that grows by little for the second time will probably do so again,
// so it gets an eighth more.
size_t with_growth_reserve(const Span* span, size_t bytes) {
  if (span->carved == 0 || bytes - span->bytes > bytes / 4) return bytes;
  return rounded(bytes + bytes / 8);
}

// Takes the memory behind the block, cached or not yet mapped. On success the block has `whole`
// bytes.
bool grow_in_place(Span* span, size_t bytes, size_t whole) {
  Range memory = memory_of(span);
  DCHECK(whole >= bytes && whole > memory.bytes);
  MoveTarget more{Range{memory.end(), whole - memory.bytes}};
  ScopedCharge growth;
  bool cached, dense = false;
  {
    AccountingGuard guard;
    Extent behind;
    cached = cache.take_at(more.range.start, more.range.bytes, &behind);
    if (cached) growth.add(more.range.bytes);
    dense = cached && !behind.sparse;
  }
  if (!cached) {
    if (!growth.charge(more.range.bytes)) return false;
    if (!take_retained_huge_at(more.range) && !map_huge_at(more.range)) return false;
    if (!fill_from_cache(more.range.start, &more)) {
      discard_target(more);
      return false;
    }
    note_if_any(fresh_bytes(more.range.bytes, more));
  }
  set_sizes(span, Range{memory.start, whole}, bytes);
  span->known_dense = span->known_dense && dense;
  span->carved++;
  return true;
}

// Moves the block's pages part by part. If a move is refused in the middle, the whole block is
// copied to the spare range, which is mapped in advance for this case: once the block is in two
// parts, no further step can fail.
bool move_block(const Range& from, const Range& spare, MoveTarget* target) {
  DCHECK(target->range.bytes >= from.bytes && (spare.bytes == 0 || spare.bytes >= from.bytes));
  Range rest = from;
  uintptr_t at = target->range.start;
  while (rest.bytes != 0) {
    Range part = first_single_mapping(rest);
    size_t room = part.bytes == rest.bytes ? target->filled - (at + part.bytes) : huge_granule();
    if (!move_part(part, at, room, target)) break;
    at += part.bytes;
    rest = Range{part.end(), rest.bytes - part.bytes};
  }
  if (rest.bytes == 0) return true;
  if (rest.start == from.start) return false;
  size_t moved = from.bytes - rest.bytes;
  memcpy(pointer(spare.start), pointer(target->range.start), moved);
  memcpy(pointer(spare.start + moved), pointer(rest.start), rest.bytes);
  discard_huge(rest);
  discard_target(*target);
  *target = MoveTarget{spare};
  return true;
}

// False if the program has split the mapping (madvise, mlock, mprotect of a part). Such a block is
// copied, which makes it one mapping again.
bool is_unsplit_mapping(Range memory) {
  while (memory.bytes != 0) {
    Range part = first_single_mapping(memory);
    if (!os::is_one_mapping(pointer(part.start), part.bytes, os::Reason::kHuge)) return false;
    memory = Range{part.end(), memory.bytes - part.bytes};
  }
  return true;
}

bool movable(const Range& memory) {
  if (!may_move() || !boundaries_are_known() ||
      boundaries_inside(memory) > memory.bytes / kBytesPerMove)
    return false;
  return is_unsplit_mapping(memory);
}

// Maps the ranges for a block that is to grow: one to move it to and, if the move takes several
// calls, a spare one.
bool map_move_ranges(const Range& memory, size_t bytes, Range* place, Range* spare) {
  *spare = Range{0, 0};
  if (!map_huge(bytes, kPageBytes, place)) return false;
  bool in_parts = first_single_mapping(memory).bytes != memory.bytes;
  if (page_map.reserve(place->start, kPageBytes) &&
      (!in_parts ||
       (map_huge(bytes, kPageBytes, spare) && page_map.reserve(spare->start, kPageBytes)))) {
    return true;
  }
  discard_huge(*place);
  discard_huge(*spare);
  return false;
}

bool grow_by_moving(Span* span, size_t bytes, size_t whole) {
  Range memory = memory_of(span);
  Range place, spare;
  if (!movable(memory)) return false;
  if (!memory_account.has_room(whole - memory.bytes)) whole = bytes;
  ScopedCharge growth;
  if (!growth.charge(whole - memory.bytes)) return false;
  if (!map_move_ranges(memory, whole, &place, &spare) &&
      (whole == bytes || !map_move_ranges(memory, bytes, &place, &spare)))
    return false;
  MoveTarget target{place};
  moving_blocks.fetch_add(1);
  page_map.set_foreign(span->start, kPageBytes);  // before another thread may map the addresses
  bool moved = fill_from_cache(target.range.start + memory.bytes + huge_granule(), &target) &&
               move_block(memory, spare, &target);
  if (!moved) discard_target(target);
  if (target.range.start != spare.start) discard_huge(spare);
  if (moved) {
    note_if_any(fresh_bytes(target.range.bytes - memory.bytes, target));
    set_sizes(span, target.range, bytes);
    span->known_dense = false;
    span->carved++;
  }
  page_map.set(span->start, kPageBytes, span);
  moving_blocks.fetch_sub(1);
  return moved;
}

}  // namespace

bool resize_huge(Span* span, size_t bytes) {
  DCHECK(span->kind == SpanKind::kHuge && page_map.span_of(pointer(span->start)) == span);
  bytes = rounded(bytes);
  if (bytes <= memory_of(span).bytes) {
    resize_within(span, bytes);
    return true;
  }
  size_t whole = with_growth_reserve(span, bytes);
  return grow_in_place(span, bytes, whole) ||
         (whole != bytes && grow_in_place(span, bytes, bytes)) ||
         grow_by_moving(span, bytes, whole);
}

size_t purge_huge(uint64_t cutoff_ns, os::Reason reason, unsigned most) {
  size_t purged_bytes = 0;
  if (cutoff_ns == UINT64_MAX) refused_moves.store(0, std::memory_order_relaxed);
  if (most > HugeCache::kMaxExtents) most = HugeCache::kMaxExtents;
  for (unsigned tries = 0; tries < most; tries++) {
    Extent extent;
    ScopedCharge hold;
    {
      AccountingGuard guard;
      if (!cache.take_old(cutoff_ns, &extent)) break;
      hold.add(extent.bytes);
      if (reason != os::Reason::kDecay)
        unmapped_early.note_unmapped(extent.bytes, os::coarse_monotonic_ns());
    }
    purged_bytes += extent.bytes;
    discard_huge(Range{extent.start, extent.bytes}, reason);
  }
  return purged_bytes;
}

size_t purge_huge_oldest(size_t bytes, os::Reason reason) {
  size_t purged_bytes = 0;
  for (unsigned tries = 0; tries < HugeCache::kMaxExtents && purged_bytes < bytes; tries++) {
    Extent extent;
    ScopedCharge hold;
    {
      AccountingGuard guard;
      if (!cache.take_oldest(&extent)) break;
      hold.add(extent.bytes);
    }
    purged_bytes += extent.bytes;
    discard_huge(Range{extent.start, extent.bytes}, reason);
  }
  return purged_bytes;
}

size_t huge_used_bytes() { return racy_load(used_bytes); }

HugeTotals huge_totals(bool new_window) {
  LockGuard guard(lock);
  HugeTotals totals{used_bytes, peak_bytes, cache.dirty_bytes()};
  if (new_window) peak_bytes = used_bytes;
  return totals;
}

bool has_cached_huge() {
  LockGuard guard(lock);
  return cache.dirty_bytes() != 0;
}

namespace {
constexpr uint32_t kSpansPerLock = 32;  // spans seen before the lock is released

// Seen spans move to the end of the list, whose order has no meaning.
Span* rotate_to_next_locked() {
  DCHECK(lock.is_held() && in_use.size() != 0);
  Span* span = in_use.front();
  in_use.remove(span);
  in_use.push_back(span);
  return span;
}

}  // namespace

void for_each_huge_memory(void (*f)(void* context, const HugeMemory& memory), void* context) {
  for (uint32_t left = UINT32_MAX; left != 0;) {
    HugeMemory seen[kSpansPerLock];
    uint32_t count = 0;
    {
      LockGuard guard(lock);
      if (left > in_use.size()) left = in_use.size();
      for (; count < kSpansPerLock && left != 0; left--) {
        const Span* span = rotate_to_next_locked();
        seen[count++] = {span->start, span->bytes, reserve_of(span)};
      }
    }
    for (uint32_t i = 0; i < count; i++) f(context, seen[i]);
  }
}

HugeStatistics huge_statistics() {
  LockGuard guard(lock);
  return {.spans = in_use.size(),
          .used_bytes = used_bytes,
          .cached_bytes = cache.dirty_bytes(),
          .memory_bytes = memory_bytes,
          .max_spans = max_spans,
          .max_used_bytes = max_used_bytes};
}

void for_each_huge_span(void (*f)(void* context, Span* span), void* context) {
  LockGuard guard(lock);
  for (Span* span = in_use.front(); span != nullptr; span = span->next) f(context, span);
}

void visit_huge_spans(void (*f)(void* context, Span* span), void* context) {
  for (uint32_t left = UINT32_MAX; left != 0;) {
    LockGuard guard(lock);
    if (left > in_use.size()) left = in_use.size();
    for (uint32_t i = 0; i < kSpansPerLock && left != 0; i++, left--)
      f(context, rotate_to_next_locked());
  }
}

unsigned copy_cached_extents(Extent* out) {
  LockGuard guard(lock);
  return cache.copy(out);
}

void lock_huge_for_fork() {
  lock.lock_for_fork();
  lock_huge_space_for_fork();
}
void unlock_huge_after_fork() {
  unlock_huge_space_after_fork();
  lock.unlock_after_fork();
}
void report_huge_bytes_in_child() {
  moving_blocks.store(0);  // the moving threads are not in the child
  memory_account.set_huge_bytes(account_bytes());
}

#ifdef SEEMALLOC_DEBUG
const char* verify_huge() {
  LockGuard guard(lock);
  if (const char* broken = in_use.verify()) return broken;
  size_t used = 0, memory = 0;
  for (const Span* span = in_use.front(); span != nullptr; span = span->next) {
    const Span* entry = page_map.span_of(pointer(span->start));
    // Free while the block is being released; foreign or another block's while realloc moves the
    // block.
    bool leaves = entry->kind == SpanKind::kFree || entry->kind == SpanKind::kForeign ||
                  moving_blocks.load() != 0;
    if (span->kind != SpanKind::kHuge || (entry != span && !leaves))
      return "invariant huge.1: each block in use is in the page map";
    used += span->bytes;
    memory += memory_of(span).bytes;
  }
  if (used != used_bytes || memory != memory_bytes)
    return "invariant huge.2: the counters are the sums over the blocks in use";
  return cache.verify();
}
#endif

}  // namespace seemalloc::pages

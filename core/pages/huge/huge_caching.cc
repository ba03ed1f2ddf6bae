// Freed huge memory: how much of it is cached for the next request, and purging.
#include "core/base/check.h"
#include "core/base/options.h"
#include "core/os/kernel/clock.h"
#include "core/os/kernel/memory.h"
#include "core/pages/huge/huge.h"
#include "core/pages/huge/huge_moving.h"
#include "core/pages/huge/huge_state.h"
#include "core/pages/policy/purge_delay.h"
#include "core/pages/policy/purge_policy.h"
#include "core/pages/span/memory_account.h"

namespace seemalloc::pages {

namespace huge {
namespace {

// Largest range that is cached, unless an eighth of the bytes in use is more. A growing vector
// leaves ever larger ranges behind, and they are of no use if only small blocks follow.
constexpr size_t kMaxCachedRangeBytes = 32 * MiB;
// Most that all sparse ranges together may have, unless an eighth of the bytes in use is more. Each
// keeps the pages of the largest block it has held, which the next block does not need. With half
// of this limit, large_blocks 10 takes
// 10 % less memory and 40 % more time.
constexpr size_t kMaxSparseBytes = 128 * MiB;
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

}  // namespace

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

}  // namespace

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
bool was_unmapped_too_soon(size_t bytes) {
  LockGuard guard(lock);
  // In eager mode purge_delay_ns() is the delay of memory that is too small to be purged
  // immediately, which does not apply to huge memory.
  uint64_t now = os::coarse_monotonic_ns(),
           delay = purge_mode() == options::Purge::kEager ? PurgeDelay::kFirstNs : purge_delay_ns();
  return unmapped_immediately.note_mapped(bytes, now, delay) ||
         unmapped_early.note_mapped(bytes, now, delay);
}

}  // namespace huge

using huge::AccountingGuard;

// Caches a range that the kernel could neither unmap nor purge. Its age excludes it from further
// purges. If there is no free record, the range is lost.
void cache_unreleasable_huge(const Range& range) {
  AccountingGuard guard;
  huge::cache.put(Extent{range.start, range.bytes, UINT64_MAX, false});
}

size_t purge_huge(uint64_t cutoff_ns, os::Reason reason, unsigned most) {
  size_t purged_bytes = 0;
  if (cutoff_ns == UINT64_MAX) huge::retry_moves();
  if (most > HugeCache::kMaxExtents) most = HugeCache::kMaxExtents;
  for (unsigned tries = 0; tries < most; tries++) {
    Extent extent;
    ScopedCharge hold;
    {
      AccountingGuard guard;
      if (!huge::cache.take_old(cutoff_ns, &extent)) break;
      hold.add(extent.bytes);
      if (reason != os::Reason::kDecay)
        huge::unmapped_early.note_unmapped(extent.bytes, os::coarse_monotonic_ns());
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
      if (!huge::cache.take_oldest(&extent)) break;
      hold.add(extent.bytes);
    }
    purged_bytes += extent.bytes;
    discard_huge(Range{extent.start, extent.bytes}, reason);
  }
  return purged_bytes;
}

bool has_cached_huge() {
  LockGuard guard(huge::lock);
  return huge::cache.dirty_bytes() != 0;
}

unsigned copy_cached_extents(Extent* out) {
  LockGuard guard(huge::lock);
  return huge::cache.copy(out);
}

}  // namespace seemalloc::pages

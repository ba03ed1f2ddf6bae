#include "core/pages/huge/huge_space.h"

#include <atomic>

#include "core/base/check.h"
#include "core/base/units.h"
#include "core/os/kernel/memory.h"
#include "core/os/runtime/lock.h"
#include "core/pages/huge/mapped_range_edges.h"
#include "core/pages/huge/mapping_boundaries.h"
#include "core/pages/huge/retained_space.h"
#include "core/pages/span/page_map.h"

namespace seemalloc::pages {

namespace {

// While there are fewer mapped ranges than this, retained address ranges are unmapped again.
constexpr size_t kUnmapRetainedBelowRanges = kMaxMappedRanges / 4 * 3;
// When the OS refuses memory, retained ranges are unmapped up to this many mapped ranges: seven
// eighths of the kernel's default limit. The rest is left for the program's own mappings.
constexpr size_t kMaxRangesUnderPressure = kMaxMappedRanges / 2 * 7;

constinit Lock lock;
constinit MappedRangeEdges edges;
constinit MappingBoundaries boundaries;
constinit RetainedSpace kept;
std::atomic<size_t> retained_bytes{0};  // for callers that need no lock while it is zero

void* pointer(uintptr_t address) { return reinterpret_cast<void*>(address); }

bool has_retained() { return retained_bytes.load(std::memory_order_relaxed) != 0; }
void update_retained_bytes_locked() {
  retained_bytes.store(kept.bytes(), std::memory_order_relaxed);
}

bool put_retained(const Range& range) {
  LockGuard guard(lock);
  bool put = kept.put(range);
  update_retained_bytes_locked();
  return put;
}

enum class Result { kUnmapped, kPurged, kStuck };

// Unmaps the first parts of a range, as many as could be noted again: *parts; *range becomes the
// rest. If the kernel refuses to unmap them (too many mappings), only their memory is purged, and
// the boundaries are restored. Not inlined: its array would otherwise be on the stack below
// put_retained().
SEEMALLOC_NOINLINE Result unmap_first_parts(Range* range, Range* parts, os::Reason reason) {
  constexpr unsigned kMaxNoted = 32;
  uintptr_t noted[kMaxNoted];
  unsigned count;
  {
    LockGuard guard(lock);
    count = boundaries.copy(range->start, range->end(), noted, kMaxNoted);
  }
  *parts = *range;
  if (count == kMaxNoted) parts->bytes = noted[--count] - parts->start;
  *range = Range{parts->end(), range->bytes - parts->bytes};
  DCHECK(parts->bytes != 0 && parts->end() + range->bytes == range->end());
  forget_huge_mapping(*parts);
  if (os::unmap(pointer(parts->start), parts->bytes, reason)) return Result::kUnmapped;
  bool gone = os::purge(pointer(parts->start), parts->bytes, reason);
  note_huge_mapping(*parts);
  LockGuard guard(lock);
  for (unsigned i = 0; i < count; i++) boundaries.add(noted[i]);
  return gone ? Result::kPurged : Result::kStuck;
}

// Returns false if the kernel refused a part of the range. The address space of that part is
// retained.
bool unmap_all(Range range, os::Reason reason) {
  bool all = true;
  while (range.bytes != 0) {
    Range parts;
    Result result = unmap_first_parts(&range, &parts, reason);
    all = all && result == Result::kUnmapped;
    // If no record is free, the addresses are lost.
    if (result == Result::kPurged) put_retained(parts);
    if (result == Result::kStuck) cache_unreleasable_huge(parts);
  }
  return all;
}

// True when unmapping the range would split a mapped range, and there are many.
bool should_retain(const Range& range) {
  LockGuard guard(lock);
  return edges.count() >= kMaxMappedRanges && edges.unmap_splits_range(range.start, range.end());
}

bool purge_and_retain(const Range& range, os::Reason reason) {
  page_map.mark_foreign(range.start, range.bytes);
  return os::purge(pointer(range.start), range.bytes, reason) && put_retained(range);
}

bool take_adjacent_retained(uintptr_t edge, Range* out) {
  LockGuard guard(lock);
  bool taken = kept.take_adjacent(edge, out);
  update_retained_bytes_locked();
  return taken;
}

bool take_largest_retained(size_t most_ranges, Range* out) {
  LockGuard guard(lock);
  bool taken = edges.count() < most_ranges && kept.take_largest(out);
  update_retained_bytes_locked();
  return taken;
}

// After a range is unmapped: the retained ranges beside it no longer join two mapped ranges. A
// further one is unmapped if mapped ranges are few.
void unmap_adjacent_retained(const Range& range, os::Reason reason) {
  Range beside;
  for (uintptr_t edge : {range.start, range.end()}) {
    if (has_retained() && take_adjacent_retained(edge, &beside)) unmap_all(beside, reason);
  }
  if (has_retained() && take_largest_retained(kUnmapRetainedBelowRanges, &beside))
    unmap_all(beside, reason);
}

}  // namespace

size_t huge_granule() { return os::page_bytes() > kPageBytes ? os::page_bytes() : kPageBytes; }

void note_huge_mapping(const Range& range) {
  DCHECK(range.bytes != 0 && (range.start | range.bytes) % huge_granule() == 0);
  LockGuard guard(lock);
  edges.toggle(range.start, range.end());
  boundaries.add(range.start);
  boundaries.add(range.end());
}

void replace_huge_mapping(const Range& range) {
  DCHECK(range.bytes != 0 && (range.start | range.bytes) % huge_granule() == 0);
  LockGuard guard(lock);
  boundaries.remove(range.start, range.end() - 1);
  boundaries.add(range.start);
  boundaries.add(range.end());
}

void note_lost_huge_mapping(const Range& range) {
  LockGuard guard(lock);
  edges.toggle(range.start, range.end());
}

void forget_huge_mapping(const Range& range) {
  DCHECK(range.bytes != 0 && (range.start | range.bytes) % huge_granule() == 0);
  page_map.mark_foreign(range.start, range.bytes);
  LockGuard guard(lock);
  edges.toggle(range.start, range.end());
  boundaries.remove(range.start, range.end());
}

Range first_single_mapping(const Range& range) {
  LockGuard guard(lock);
  return Range{range.start, boundaries.next(range.start, range.end()) - range.start};
}

unsigned boundaries_inside(const Range& range) {
  LockGuard guard(lock);
  return boundaries.between(range.start, range.end());
}

bool boundaries_are_known() {
  LockGuard guard(lock);
  return boundaries.complete();
}

bool map_huge(size_t bytes, size_t alignment, Range* out) {
  void* start = os::map_aligned(bytes, alignment < huge_granule() ? huge_granule() : alignment,
                                os::Reason::kHuge);
  if (start == nullptr) return false;
  *out = Range{reinterpret_cast<uintptr_t>(start), bytes};
  note_huge_mapping(*out);
  return true;
}

bool map_huge_at(const Range& range) {
  if (!os::map_after(range.start, range.bytes, os::Reason::kHuge)) return false;
  note_huge_mapping(range);
  return true;
}

bool take_retained_huge(size_t bytes, size_t alignment, Range* out) {
  if (!has_retained()) return false;
  LockGuard guard(lock);
  bool taken = kept.take(bytes, alignment < huge_granule() ? huge_granule() : alignment, out);
  update_retained_bytes_locked();
  return taken;
}

bool take_retained_huge_at(const Range& range) {
  if (!has_retained()) return false;
  LockGuard guard(lock);
  bool taken = kept.take_at(range.start, range.bytes);
  update_retained_bytes_locked();
  return taken;
}

void discard_huge(Range range, os::Reason reason) {
  if (range.bytes == 0) return;
  DCHECK((range.start | range.bytes) % huge_granule() == 0);
  if (should_retain(range) && purge_and_retain(range, reason)) return;
  if (unmap_all(range, reason)) unmap_adjacent_retained(range, reason);
}

HugeSpace huge_space() {
  LockGuard guard(lock);
  return HugeSpace{edges.count(), kept.bytes(), kept.ranges()};
}

size_t unmap_retained_huge() {
  size_t bytes = 0;
  Range range;
  while (has_retained() && take_largest_retained(kMaxRangesUnderPressure, &range)) {
    if (!unmap_all(range, os::Reason::kPressure)) break;
    bytes += range.bytes;
  }
  return bytes;
}

void lock_huge_space_for_fork() { lock.lock_for_fork(); }
void unlock_huge_space_after_fork() { lock.unlock_after_fork(); }

#ifdef SEEMALLOC_DEBUG
const char* verify_huge_space() {
  LockGuard guard(lock);
  if (retained_bytes.load(std::memory_order_relaxed) != kept.bytes())
    return "invariant huge_space.1: retained_bytes is the size of the retained ranges";
  const char* broken = kept.verify();
  return broken != nullptr ? broken : boundaries.verify();
}
#endif

}  // namespace seemalloc::pages

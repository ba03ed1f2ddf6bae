#include "core/pages/huge/huge_space.h"

#include <atomic>

#include "core/base/check.h"
#include "core/base/units.h"
#include "core/os/kernel/memory.h"
#include "core/os/runtime/lock.h"
#include "core/pages/huge/edges.h"
#include "core/pages/huge/kept_space.h"
#include "core/pages/huge/seams.h"
#include "core/pages/span/page_map.h"

namespace seemalloc::pages {

namespace {

// While there are fewer pieces than this, retained address ranges are unmapped again.
constexpr size_t kFewPieces = kMostPieces / 4 * 3;
// When the OS refuses memory, retained ranges are unmapped up to this many pieces: seven eighths of
// the kernel's default limit. The rest is left for the program's own mappings.
constexpr size_t kMostPiecesUnderPressure = kMostPieces / 2 * 7;

constinit Lock lock;
constinit Edges edges;
constinit Seams seams;
constinit KeptSpace kept;
std::atomic<size_t> kept_bytes{0};  // for callers that need no lock while it is zero

void* pointer(uintptr_t address) { return reinterpret_cast<void*>(address); }

bool anything_kept() { return kept_bytes.load(std::memory_order_relaxed) != 0; }
void kept_changed_locked() { kept_bytes.store(kept.bytes(), std::memory_order_relaxed); }

bool put_kept(const Range& range) {
  LockGuard guard(lock);
  bool put = kept.put(range);
  kept_changed_locked();
  return put;
}

enum class Result { kUnmapped, kPurged, kStuck };

// Unmaps the first parts of a range, as many as could be noted again: *parts; *range becomes the
// rest. If the kernel refuses to unmap them (too many mappings), only their memory is purged, and
// the boundaries are restored. Not inlined: its array would otherwise be on the stack below
// put_kept().
SEEMALLOC_NOINLINE Result unmap_first_parts(Range* range, Range* parts, os::Reason reason) {
  constexpr unsigned kMostNoted = 32;
  uintptr_t noted[kMostNoted];
  unsigned count;
  {
    LockGuard guard(lock);
    count = seams.copy(range->start, range->end(), noted, kMostNoted);
  }
  *parts = *range;
  if (count == kMostNoted) parts->bytes = noted[--count] - parts->start;
  *range = Range{parts->end(), range->bytes - parts->bytes};
  DCHECK(parts->bytes != 0 && parts->end() + range->bytes == range->end());
  forget_huge_mapping(*parts);
  if (os::unmap(pointer(parts->start), parts->bytes, reason)) return Result::kUnmapped;
  bool gone = os::purge(pointer(parts->start), parts->bytes, reason);
  note_huge_mapping(*parts);
  LockGuard guard(lock);
  for (unsigned i = 0; i < count; i++) seams.add(noted[i]);
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
    if (result == Result::kPurged) put_kept(parts);
    if (result == Result::kStuck) keep_stuck_huge(parts);
  }
  return all;
}

// True when unmapping the range would add a piece, and there are many.
bool is_worth_keeping(const Range& range) {
  LockGuard guard(lock);
  return edges.pieces() >= kMostPieces && edges.splits(range.start, range.end());
}

bool purge_and_keep(const Range& range, os::Reason reason) {
  page_map.forget(range.start, range.bytes);
  return os::purge(pointer(range.start), range.bytes, reason) && put_kept(range);
}

bool take_kept_beside(uintptr_t edge, Range* out) {
  LockGuard guard(lock);
  bool taken = kept.take_beside(edge, out);
  kept_changed_locked();
  return taken;
}

bool take_largest_kept(size_t most_pieces, Range* out) {
  LockGuard guard(lock);
  bool taken = edges.pieces() < most_pieces && kept.take_largest(out);
  kept_changed_locked();
  return taken;
}

// After a range is unmapped: the retained ranges beside it no longer save a piece. A further one is
// unmapped if pieces are few.
void unmap_kept_around(const Range& range, os::Reason reason) {
  Range beside;
  for (uintptr_t edge : {range.start, range.end()}) {
    if (anything_kept() && take_kept_beside(edge, &beside)) unmap_all(beside, reason);
  }
  if (anything_kept() && take_largest_kept(kFewPieces, &beside)) unmap_all(beside, reason);
}

}  // namespace

size_t huge_granule() { return os::page_bytes() > kPageBytes ? os::page_bytes() : kPageBytes; }

void note_huge_mapping(const Range& range) {
  DCHECK(range.bytes != 0 && (range.start | range.bytes) % huge_granule() == 0);
  LockGuard guard(lock);
  edges.toggle(range.start, range.end());
  seams.add(range.start);
  seams.add(range.end());
}

void replace_huge_mapping(const Range& range) {
  DCHECK(range.bytes != 0 && (range.start | range.bytes) % huge_granule() == 0);
  LockGuard guard(lock);
  seams.remove(range.start, range.end() - 1);
  seams.add(range.start);
  seams.add(range.end());
}

void lose_huge_mapping(const Range& range) {
  LockGuard guard(lock);
  edges.toggle(range.start, range.end());
}

void forget_huge_mapping(const Range& range) {
  DCHECK(range.bytes != 0 && (range.start | range.bytes) % huge_granule() == 0);
  page_map.forget(range.start, range.bytes);
  LockGuard guard(lock);
  edges.toggle(range.start, range.end());
  seams.remove(range.start, range.end());
}

Range first_huge_part(const Range& range) {
  LockGuard guard(lock);
  return Range{range.start, seams.next(range.start, range.end()) - range.start};
}

unsigned seams_inside(const Range& range) {
  LockGuard guard(lock);
  return seams.between(range.start, range.end());
}

bool seams_are_known() {
  LockGuard guard(lock);
  return seams.complete();
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
  if (!os::map_behind(range.start, range.bytes, os::Reason::kHuge)) return false;
  note_huge_mapping(range);
  return true;
}

bool take_kept_huge(size_t bytes, size_t alignment, Range* out) {
  if (!anything_kept()) return false;
  LockGuard guard(lock);
  bool taken = kept.take(bytes, alignment < huge_granule() ? huge_granule() : alignment, out);
  kept_changed_locked();
  return taken;
}

bool take_kept_huge_at(const Range& range) {
  if (!anything_kept()) return false;
  LockGuard guard(lock);
  bool taken = kept.take_at(range.start, range.bytes);
  kept_changed_locked();
  return taken;
}

void discard_huge(Range range, os::Reason reason) {
  if (range.bytes == 0) return;
  DCHECK((range.start | range.bytes) % huge_granule() == 0);
  if (is_worth_keeping(range) && purge_and_keep(range, reason)) return;
  if (unmap_all(range, reason)) unmap_kept_around(range, reason);
}

HugeSpace huge_space() {
  LockGuard guard(lock);
  return HugeSpace{edges.pieces(), kept.bytes(), kept.ranges()};
}

size_t unmap_kept_huge() {
  size_t bytes = 0;
  Range range;
  while (anything_kept() && take_largest_kept(kMostPiecesUnderPressure, &range)) {
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
  if (kept_bytes.load(std::memory_order_relaxed) != kept.bytes())
    return "invariant huge_space.1: kept_bytes is what is kept";
  const char* broken = kept.verify();
  return broken != nullptr ? broken : seams.verify();
}
#endif

}  // namespace seemalloc::pages

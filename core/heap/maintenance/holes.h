// Holes: OS pages inside half-empty spans that no live block touches. They are purged once the span
// has waited for a while.
//
// A load that has passed leaves a few live blocks in each of many spans. The free blocks between
// them are linked through their own memory, so their pages can only be purged once the blocks have
// left the list. These blocks then count as live, and the span remembers them by page (Span::holes)
// until the owner has used up the list and carves the blocks of a hole again (refill_hole).
//
// The purge does not need the owner, which may sleep for ever, and free() knows nothing of it:
// 1. The purger detaches the span (SpanState::kDetached): takes it off its owner's available list
//    under slow_lock, or off the central list. From then on no thread allocates from it, transfers
//    it or releases it, so no other thread reads its free list. The first block of the list changes
//    only because frees, by the owner and by others, push in front of it. The rest of the list,
//    behind the block that was first when the purger looked, belongs to the purger alone.
// 2. The purger reads that rest without a lock. Pages without a live block and without the first
//    block's link are holes.
// 3. Under the lock again, it unlinks the blocks that start in holes and counts them as live.
//    free() counts down without a lock, so other threads never write a countdown: they raise the
//    bias.
// 4. It purges the pages without a lock. All blocks in them are free, and no thread can allocate
//    them.
// 5. Under the lock it puts the span back on its list, or releases it if all its blocks have been
//    freed meanwhile.
// A thread that ends leaves a detached span to its heap (ThreadHeap::detached_spans); the thread
// that reattaches the span releases it.
// fork holds the locks, so it finds a span before or after step 3. A child reattaches the spans
// whose purger it does not have.
//
// A thread's current span is on none of these lists; current_spans.h detaches it if the thread does
// not use it.
//
// Callers: heap::tick() and purge_all(). Threads: any, one at a time; the others skip the work.
// Steps 2 and 3 are in hole_search.h. Checked by holes_model_test.cc, which runs that code in every
// interleaving, with weak memory, and holes_test.cc (threads).
#pragma once

#include <cstddef>
#include <cstdint>

namespace seemalloc::heap {

// Purges the holes of spans that have waited for a purge delay. Works in slices, within one percent
// of the processor time that the program uses, or as long as the program is idle. Cheap when it is
// not time. Requires: no lock held.
void purge_holes_if_due(uint64_t now_ns);
// True if this period's spans did not fit into the last slice: the next slice is due in some
// milliseconds.
bool hole_scan_unfinished();
// Purges all holes, or those that it reaches in about `most_ns`. Returns the bytes purged.
size_t purge_all_holes(uint64_t most_ns = UINT64_MAX);

// Returns how long ago the period of this number began. For a period older than the remembered ones
// it returns a lower bound.
uint64_t ns_since_hole_epoch(uint32_t epoch);

// In a forked child: reattaches the span that the parent's purger had detached. That takes locks.
// If locks may not be taken, the span stays detached, and nothing more is allocated from it.
void reset_purger_in_child(bool may_lock);

// While an object of this class exists no thread purges holes, so lists can be walked.
class HolePurgePause {
 public:
  HolePurgePause();
  ~HolePurgePause();
  HolePurgePause(const HolePurgePause&) = delete;
  HolePurgePause& operator=(const HolePurgePause&) = delete;
};

struct HoleCounters {
  uint64_t spans;  // spans in which holes were found
  uint64_t purged_bytes;
  uint64_t refilled_bytes;  // purged bytes that were reused
  uint64_t current_spans;   // current spans taken from classes that their thread did not use
};
HoleCounters hole_counters();

}  // namespace seemalloc::heap

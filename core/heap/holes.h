// Holes: OS pages inside half-empty spans that no live block touches. They go back to the system once the span has waited.
//
// A load that has passed leaves a few blocks in each of many spans. The free blocks between them are linked through their
// own memory, so their pages can only go when the blocks leave the list: they are counted as live then and remembered by
// page (Span::holes), until the owner has used up the list and cuts those of a page again (refill_hole).
//
// None of this needs the owner, who may sleep for ever, and free() knows nothing of it:
// 1. The span is detached (SpanState::kDetached): taken off its owner's list of available spans under slow_lock, or off the
//    central list. From then on nobody hands out from it, gives it away or gives it back, so nobody reads its free list,
//    whose first block only changes because frees, the owner's and others', push in front. The rest of the list, behind what
//    was the first block, is the purger's alone.
// 2. That rest is read, without a lock. Pages without a live block and without the first block's link are holes.
// 3. Under the lock again the blocks that start in holes are unlinked and counted as live. free() counts down without a
//    lock, so others never write a countdown: they raise the bias.
// 4. The pages are purged, without a lock. All that lies in them is free, and nobody can get it.
// 5. Under the lock the span is filed again, or given back if all of it has been freed meanwhile.
// A thread that ends leaves a detached span to its heap (ThreadHeap::detached_spans); whoever files it hands it on.
// fork finds a span before or after step 3, as it holds the locks; a child files those whose purger it does not have.
//
// The span that a thread hands out from is none of these; current_spans.h makes it one where the thread does not use it.
//
// Who calls: heap::tick() and purge_all(). Threads: any, one at a time; others do without.
// Checked by holes_model_test.cc (every interleaving on a small model) and holes_test.cc (threads).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "core/base/compiler.h"
#include "core/pages/span.h"

namespace seemalloc::heap {

using pages::Span;

// Time for spans that wait: counts half purge delays, or longer periods when purged pages are soon wanted again.
extern std::atomic<uint32_t> hole_epoch;

// Purges the holes of spans that have waited for a purge delay, a slice at a time, within a hundredth of what the program uses
// or as long as it is idle. Cheap when it is not time. Requires: no lock held.
void purge_holes_if_due(uint64_t now_ns);
// It has not fitted: the next slice is due in some milliseconds.
bool holes_wait();
// Purges all holes there are, or those it comes to in about `most_ns`. Returns bytes given back.
size_t purge_all_holes(uint64_t most_ns = UINT64_MAX);

// How long ago a period began, by its number: at least so long, where that is further back than is remembered.
uint64_t ns_since_hole_epoch(uint32_t epoch);

// The helper thread, by the address of its thread_cache: where there is one, slow paths leave it to purge_holes_if_due() there.
extern std::atomic<const void*> hole_helper;

// The blocks of one hole, linked, null-terminated, and no longer counted as in a hole; they still count as live. Returns
// their number. Requires: the span has holes, the owner calls.
uint32_t refill_hole(Span* span, Block** first);

// In a forked child: files what the parent's purger had detached. That takes locks: where it may not, the span stays as it is,
// and nothing more is handed out from it.
void forget_purger_in_child(bool may_lock);

// While alive nobody purges holes, so that lists can be walked.
class HolePurgePause {
 public:
  HolePurgePause();
  ~HolePurgePause();
  HolePurgePause(const HolePurgePause&) = delete;
  HolePurgePause& operator=(const HolePurgePause&) = delete;
};

struct HoleCounters {
  uint64_t spans;           // that holes were found in
  uint64_t purged_bytes;
  uint64_t refilled_bytes;  // of them, those that were wanted again
  uint64_t current_spans;   // taken from classes that their thread did not use
};
HoleCounters hole_counters();

// ---- for the lists that spans wait on: under their lock ----

// The one span that is detached, since one thread at a time purges; else null.
extern std::atomic<Span*> detached_span;
inline void note_detached(Span* span) {
  span->state = pages::SpanState::kDetached;
  detached_span.store(span, std::memory_order_relaxed);
}
inline void forget_detached() { detached_span.store(nullptr, std::memory_order_relaxed); }

// Spans that are looked at while the lock is held.
inline constexpr unsigned kHoleLooks = 128;
// The span has been on its list for so many periods.
inline bool has_waited(const Span* span, uint32_t periods) {
  return hole_epoch.load(std::memory_order_relaxed) - span->look.since >= periods;
}
// Blocks on its list; while the owner frees one it may not be counted yet.
inline uint32_t listed_blocks(const Span* span) { return span->carved - span->live_acquire(); }
inline bool worth_another_look(const Span* span) { return listed_blocks(span) >= span->look.worth_from; }
// There is enough free in it, and more than when it was last looked at.
bool may_have_holes(const Span* span);
// It has been looked at.
void note_look(Span* span);

// ---- pages and blocks of a span ----

struct BlockRange {
  uint32_t first, end;
};
// Numbers of the cut blocks whose first byte lies in the OS page; pages are counted as in Span::holes.
BlockRange blocks_starting_in(const Span* span, unsigned page);
inline unsigned lowest_page(uint32_t pages) { return static_cast<unsigned>(__builtin_ctz(pages)); }

}  // namespace seemalloc::heap

// Takes the current span (ClassState::current) from a class that its thread has not used for a
// while, so that the span's pages with free blocks only can be purged (holes.h). A thread that has
// used every class, freed everything and now sleeps keeps most of its memory in current spans.
//
// A current span differs from an available one: its owner takes its whole local free list without a
// lock, in refill_from_local_frees, when the thread free list has ended. The purger prevents that
// without any extra store by the owner:
// 1. Under the heap's slow_lock it clears local_refill_spans[c]. From now on
//    refill_from_local_frees finds null, and refill waits for the lock.
// 2. It runs a fence on all running threads (membarrier). If the owner has read
//    local_refill_spans[c] before the fence, then it has, even before that, stored the null that
//    ended the thread free list, and heads[c] shows it.
// 3. It takes slow_lock again. If local_refill_spans[c] is still null and heads[c] is not null, no
//    refill_from_local_frees of this class is under way, because its last store, a release, is the
//    one to heads[c]. So the purger clears the class's current span and detaches the span.
//    malloc's pops store to heads[c] too, without ordering. A purger that reads the value of such a
//    store still sees what came before the release: x86-64 keeps stores in order, and ARMv8 orders
//    a releasing store before the thread's next store to the same word. (C++20 does not promise
//    it.)
// Blocks of the span in the thread free list and the stash count as live; the two are now lists of
// another span (ClassState::lists_not_from_current). A class whose thread free list is empty is
// left alone: its owner may be at any point of refill_from_local_frees.
// A thread that ends, or that takes over an abandoned heap, moves the lists under slow_lock.
// Between two threads they are in body->saved_lists, where no thread uses them while the heap is
// abandoned (kAbandoned).
// The owner may have exited without our notice, so its memory is read by copying
// (orphaned_heaps.h). If it is gone, any result of that copy will do.
// A span that comes back is an available one, except for its countdown. The countdown belongs to
// the owner and does not reach zero until the span is current again. If all blocks are freed before
// that, the next scan for holes releases the span.
//
// Without such a fence in the kernel, or if it copies no memory, current spans stay. Caller:
// holes.cc. Threads: the purger, of which there is one at a time.
// The steps are in current_span_protocol.h. Checked by current_spans_model_test.cc, which runs that
// code in every interleaving, with weak memory, and holes_test.cc (threads).
#pragma once

#include <cstdint>

#include "core/heap/thread/thread_heap.h"

namespace seemalloc::heap {

// Steps 1 and 2 for the classes of the heap that have not been used for `least_periods` periods of
// holes.h (with 1: for all classes) and whose current spans may have holes. Returns one bit per
// class. Returns 0 too if the heap is busy. Requires: no lock held.
uint64_t begin_detach_unused(ThreadHeap& heap, uint32_t least_periods);
static_assert(kClassCount <= 64);

// Step 3 for one of these classes. Returns the detached span, or null if its thread has used the
// class meanwhile. Requires: no lock held.
Span* detach_current(ThreadHeap& heap, unsigned size_class);

}  // namespace seemalloc::heap

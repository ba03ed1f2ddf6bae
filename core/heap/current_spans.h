// The span in use (ClassState::current) of a thread that sleeps: taken from a class that has not been used for a while, so that the
// pages of it that hold free blocks only can go (holes.h). A thread that has used every class and freed everything keeps most of its
// memory there.
//
// A current span differs from an available one in that its owner takes its whole free list without a lock, in take_freed, when
// a malloc list has ended. It can be kept from that without a store of its own:
// 1. Under the heap's slow_lock ready[c] is cleared: take_freed finds null from now on, and refill waits for the lock.
// 2. A fence on all running threads (membarrier). Whoever has read ready[c] before it has, before that, stored the null that ended
//    the malloc list: heads[c] shows it.
// 3. Under slow_lock again: if ready[c] is null still, and heads[c] is not, no take_freed of this class is under way: its last
//    store, with release, is that to heads[c]. Then the class has no current span any more, and the span is detached.
// What the malloc list and the stash have of it counts as live, and they are now lists of another span (ClassState::mixed). A
// class whose malloc list is at its end is left alone: its owner may be anywhere.
// A thread that ends, or takes over a heap that is parked, moves the lists under slow_lock; between the two they are body->kept, where
// nobody uses them while the heap is parked.
// The owner may be gone without our knowing it: what is read of its memory is a copy (lost_threads.h). Of one that is gone any will do.
// When it comes back it is an available span, but for its countdown, which is the owner's and never reaches zero until the
// span is in use again: if all of it is freed before that, whoever looks next for holes gives it back.
//
// Where the kernel has no such fence, or copies no memory, current spans stay. Who calls: holes.cc. Threads: the purger, of which there is one.
// Checked by current_spans_model_test.cc (every interleaving on a machine with store buffers) and holes_test.cc (threads).
#pragma once

#include <cstdint>

#include "core/heap/thread_heap.h"

namespace seemalloc::heap {

// Steps 1 and 2 for the classes of the heap that have not been used for so many periods of holes.h, with one, at all events, and
// whose current spans may have holes. One bit for each. 0 too when the heap is busy. Requires: no lock held.
uint64_t unused_classes(ThreadHeap& heap, uint32_t least_periods);
static_assert(kClassCount <= 64);

// Step 3 for one of them; null when its thread has used it meanwhile. The span is detached. Requires: no lock held.
Span* detach_current(ThreadHeap& heap, unsigned size_class);

}  // namespace seemalloc::heap

// Threads that end without a word to us: by the bare system call exit, as clones of the program's own, or where there was no key for
// thread_ends. Their heap stays kActive, and ThreadHeap::cache points to what was thread-local memory until whoever joins them unmaps
// it or gives it to the next thread; the kernel tells the joiner that they have ended, not us.
//
// 1. Nobody but the heap's own thread follows ThreadHeap::cache: others copy what is there by a system call, which answers where
//    nothing is mapped. To look whether the thread lives would not do: it may end, and its memory go, before the next instruction.
//    But for a heap between two threads: its lists are in our memory (HeapBody::kept).
// 2. A copy is the heap's if the memory names the heap (ThreadCache::heap), read after the lists. Only adopt_heap and abandon_heap write
//    that word, under slow_lock, and nobody adopts the heap of a lost thread before step 4. So a thread that has the same memory now
//    has null there until it has a heap of its own, and lists with that: until then the lists are those that were left, or already null.
// 3. A thread is lost when the kernel knows no thread of its id in this process. An id is used again, so some are found late. The process
//    is remembered with it (ThreadHeap::process_id): a child of fork that ran no handlers of ours has its parent's ids, and a clone that
//    shares the memory is another process.
// 4. Whoever finds that takes the heap under the registry lock, once: process_id is nobody's then, and the lists are in body->kept, so
//    that nobody takes its current spans (current_spans.h). The rest is what becomes of a heap whose thread has ended with too much
//    to be parked.
// A thread that was lost while it held one of our locks keeps it.
//
// Threads: any. Who calls: whoever reads other threads' lists; tick() and purge_all().
#pragma once

#include "core/heap/thread_heap.h"

namespace seemalloc::heap {

// The malloc lists of the heap's thread, or those that are kept for the next. False, and nothing is known of them, where there are none,
// and where the kernel refuses. Requires: slow_lock, while which is held the answer stays true for a thread that lives.
bool read_lists(const ThreadHeap& heap, Block* (&lists)[kClassCount]);
bool read_list(const ThreadHeap& heap, unsigned size_class, Block** list);

// Takes the lists of a heap that has no thread any more out of its memory, for release_everything() to hand them on.
// Requires: slow_lock.
void take_over_lists(ThreadHeap& heap);

// True when the thread that has the heap has ended, without our knowing if it still has it. Requires: the registry lock.
bool has_lost_its_thread(const ThreadHeap& heap, int this_process);

// Heaps of lost threads hand on what they have; all of them, or where there are many those that are looked at in turn.
// Requires: no lock held.
void release_lost(bool all);

}  // namespace seemalloc::heap

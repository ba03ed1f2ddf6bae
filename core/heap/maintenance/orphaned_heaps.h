// Lost threads: threads that end without running our code. They end by the bare system call exit,
// or are clones that the program made itself, or there was no key for on_thread_exit. Their heap
// stays kActive. ThreadHeap::cache still points to memory that was thread-local, until the thread
// that joins them unmaps it or reuses it for the next thread. The kernel tells the joiner that they
// have ended, but not us.
//
// 1. Only the heap's own thread follows ThreadHeap::cache. Other threads copy the memory by a
//    system call, which returns an error if nothing is mapped there. Checking first whether the
//    thread lives would not do: it may end, and its memory be unmapped, before the next
//    instruction. The exception is a heap between two threads: its lists are in our own memory
//    (HeapBody::saved_lists).
// 2. A copy belongs to the heap if the memory names the heap (ThreadCache::heap), read after the
//    lists. Only adopt_heap and abandon_heap write that word, under slow_lock, and no thread adopts
//    the heap of a lost thread before step 4. So a new thread in the same memory has null there
//    until it has a heap of its own, and lists with it. Until then the lists are those that the
//    lost thread left, or already null.
// 3. A thread is lost if the kernel knows no thread of its id in this process. Ids are reused, so
//    some lost threads are found late. The process id is stored beside it (ThreadHeap::process_id):
//    a child of fork that ran none of our handlers has its parent's ids, and a clone that shares
//    the memory is another process.
// 4. The thread that finds a lost one takes its heap under the registry lock, once: it sets
//    process_id to 0 and moves the lists to body->saved_lists, so that no thread takes the heap's
//    current spans (current_spans.h). From there on it proceeds as for a heap that is too large to
//    be kept when its thread ends.
// If a thread was lost while it held one of our locks, the lock stays locked.
//
// Threads: any. Callers: code that reads other threads' lists; tick() and purge_all().
#pragma once

#include "core/heap/thread/thread_heap.h"

namespace seemalloc::heap {

// Copies the free lists of the heap's thread, or those kept for the next thread. Returns false,
// with unspecified contents, if there are none or the kernel refuses. Requires: slow_lock. For a
// thread that lives, the result stays true while the lock is held.
bool copy_free_lists(const ThreadHeap& heap, Block* (&lists)[kClassCount]);
bool copy_free_list(const ThreadHeap& heap, unsigned size_class, Block** list);

// Copies the lists of a heap that has lost its thread into body->saved_lists, for
// release_everything() to return their blocks. Requires: slow_lock.
void copy_lists_from_thread(ThreadHeap& heap);

// True if the heap counts as active but its thread has ended without our notice. Requires: the
// registry lock.
bool thread_has_exited(const ThreadHeap& heap, int this_process);

}  // namespace seemalloc::heap

// Hand-over: a heap and its lists between two threads.
//
// Caller: registry.cc. Threads: the heap's thread, or the one that empties the heap of an ended
// thread.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/heap/thread/thread_heap.h"

namespace seemalloc::heap {

// Releases the lists and spans of a heap whose thread has ended, or does not exist after fork.
// Leaves the heap a zombie.
void release_everything(ThreadHeap& heap);
// Detaches the heap and its lists from the calling thread, which is ending: the lists move to
// body->saved_lists. Requires: slow_lock.
void detach_from_this_thread(ThreadHeap& heap);
// The calling thread is ending: keeps the heap as it is for the next thread. On success
// heap.abandoned_bytes is the size of the spans that it keeps. Returns false, and the heap stays
// this thread's, if that would keep more than `most_bytes` of spans from other threads.
bool try_keep_for_next_thread(ThreadHeap& heap, size_t most_bytes);
// Makes the heap the calling thread's, with the lists that it has if it was abandoned.
void attach_to_this_thread(ThreadHeap& heap);

}  // namespace seemalloc::heap

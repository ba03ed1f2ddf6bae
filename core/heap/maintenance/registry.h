// Registry: makes and recycles thread heaps, and empties those of ended threads.
// Threads: any; one lock, registry_lock().
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/heap/thread/thread_heap.h"

namespace seemalloc::heap {

// Returns the heap of the calling thread. Makes or recycles one if the thread has none. Returns
// null if the OS refuses memory.
ThreadHeap* adopt_heap();
// The calling thread is ending. If its spans are few, the heap keeps them for the next thread.
// Otherwise, or if no thread takes the heap before the next tick, every span goes to the central
// lists or the page heap.
void abandon_heap(ThreadHeap& heap);

// Purges the memory of heaps that have had no thread for some ticks. Makes system calls. Requires:
// no lock held.
void purge_idle_bodies();

// Releases the empty spans that threads keep for their next refill, one per class. Requires: no
// lock held.
void release_empty_spans();

// Empties the abandoned heaps that no thread has taken yet. Requires: no lock held.
void release_abandoned_heaps();

// Empties the heaps of lost threads. With `all` it checks every heap; otherwise, if there are many
// heaps, a limited number in turn.
// Requires: no lock held.
void release_orphaned_heaps(bool all);

// Releases the spans that active threads have kept since before the epoch, except those of a thread
// that is using its cache, and shares the budget again.
void flush_idle_large_caches(uint32_t epoch);

// Bytes that heaps handed out before their current (or last) thread, and bytes that threads got
// without a heap. Requires: the registry lock.
uint64_t allocated_by_earlier_threads();
// Counts bytes given to a thread that is past its last destructors, or for whose heap there was no
// memory.
void count_allocated_without_heap(uint64_t bytes);

// In a forked child: the other threads are gone; this thread abandons their heaps on their behalf.
// Without may_lock it takes no lock, and the heaps stay as they are.
void recover_heaps_in_child(bool may_lock);

}  // namespace seemalloc::heap

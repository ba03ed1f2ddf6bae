// Walks over thread heaps, central lists and sampled spans that check the numbered invariants of
// their headers.
//
// For debug, test and sanitizer builds: libseemalloc.so does not have them. Each returns the first
// broken invariant as text ("invariant thread_heap.2: …"), or null. Callers: the debug library's
// slow paths and tests. Threads: any, without a lock held. A walk takes the lock of what it checks,
// so other threads may work meanwhile. What a heap's owner changes without a lock is checked by the
// owner only; a signal handler that has interrupted malloc or free must not call these. Cost: a
// cache line for each free block of the spans that the thread, or no thread, owns.
#pragma once

#include "core/heap/thread/thread_heap.h"

namespace seemalloc::heap {

// The counters, the free list, the holes and the remote word of a span of blocks. Requires: no
// thread else changes them: the owner calls, or the lock of the list of a span without an owner is
// held.
const char* verify_span(const Span& span);
// The same of a span whose owner may be freeing: what holds all the time. Requires: the owner's
// slow_lock.
const char* verify_counts(const Span& span);
// A thread heap's spans, and for its own thread all lists. Null as well when another thread holds
// its lock.
const char* verify_heap(ThreadHeap& heap);
// All heaps, the central lists (central.h), sampled spans (sampled.h), homes (homes.h) and the page
// heap.
const char* verify_all();

// Ends the process with the text of a broken invariant.
void require_sound(const char* broken);

}  // namespace seemalloc::heap

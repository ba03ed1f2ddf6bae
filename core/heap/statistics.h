// What the heap holds, counted when asked: the fast paths count nothing.
//
// Numbers are exact when no other thread runs; otherwise each is right at some moment during the walk.
// Threads: any, off the fast path; takes the lock of a shard for one region at a time, the registry's while thread heaps are counted, and each
// heap's slow_lock while its lists are: a thread may wait for that.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "core/heap/size_class.h"

namespace seemalloc::heap {

struct ClassStatistics {
  size_t spans;
  size_t span_bytes;
  size_t live;    // blocks the program has; sampled ones by the class that they were allocated as, wherever they lie
  size_t cached;  // blocks in malloc lists, stashes and remote lists
  size_t free;    // blocks in the spans' own lists
  uint64_t refills;  // times that a thread's list was at its end
};

// Small spans by who has them.
struct SpanStatistics {
  size_t owned, owned_bytes;      // a thread heap's, with live blocks
  size_t central, central_bytes;  // nobody's: the next thread in need takes them
  size_t empty, empty_bytes;      // without a live block, kept by a thread heap
  size_t sampled, sampled_bytes;  // of sampled blocks
  size_t cached_large, cached_large_bytes;  // large blocks' spans, kept for their thread's next request
};

struct Statistics {
  std::array<ClassStatistics, kClassCount> classes;
  size_t large_spans, large_bytes;  // whole-page blocks, huge ones included
  size_t live_bytes;                // blocks the program has, by allocated size
  size_t cached_bytes;              // blocks kept for threads
  size_t free_bytes;                // blocks in the spans' own lists
  SpanStatistics spans;
  uint64_t allocated_bytes;         // handed to threads since the start, freed or not: never falls, ahead by untaken_bytes
  uint64_t untaken_bytes;           // of them, what the program has not had: in threads' lists now, or when they ended
  int64_t resized_bytes;            // what large blocks have grown by where they were, less what they have shrunk by: in neither
  uint64_t remote_frees;            // blocks freed by threads other than their span's owner, and sent to it
  uint64_t copies, copied_bytes;    // blocks that realloc had to copy
  size_t heaps;                     // thread heaps ever made
  size_t live_heaps;                // with a thread now
};
Statistics statistics();
// What the program has freed since the start, each block as large as it was in the end.
uint64_t freed_bytes(const Statistics& statistics);

// What one thread's heap has, and what its thread did. Counts are the heap's: those of threads that had it before are in them.
struct ThreadStatistics {
  int thread_id;
  size_t list_bytes;   // free blocks in its lists, those of other threads' spans included
  size_t empty_bytes;  // its spans without a live block
  size_t free_bytes;   // free blocks in its other spans
  size_t large_bytes;  // large blocks that it freed and may have again
  size_t live_bytes;   // blocks of its spans that the program has, or that wait in some thread's lists
  uint64_t refills, remote_frees;
};
// Calls f for each heap that has a thread now, under locks: f allocates nothing and makes no system call.
void for_each_thread(void (*f)(void* context, const ThreadStatistics& thread), void* context);

// What the calling thread has been given since it began, by allocated size. Exact but for blocks that grew in place, at most one
// per size class, a sample that is due, and blocks in lists of a thread before it (park) that it had taken by its first call of this:
// what it is given between two calls is exact all the same. Walks the thread's lists. 0 without a heap.
uint64_t allocated_by_this_thread();

// Calls f(context, block, allocated_bytes) for each block the program has. Requires: no other thread allocates or frees,
// and f does neither. Returns false when a span's lists contradict its counts (broken metadata), or the helper thread was at them for ten
// seconds (walk_gate.h).
bool for_each_live_block(void (*f)(void* context, void* block, size_t bytes), void* context);

}  // namespace seemalloc::heap

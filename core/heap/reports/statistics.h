// Statistics of the heap, counted on request: the fast paths count nothing.
//
// The numbers are exact while no other thread runs; otherwise each is right at some moment during
// the walk.
// Threads: any, off the fast path. Takes the lock of a shard for one region at a time, the registry
// lock while it counts thread heaps, and each heap's slow_lock while it counts the heap's lists: a
// thread may wait for these.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "core/heap/thread/size_class.h"
#include "core/heap/thread/thread_heap.h"

namespace seemalloc::heap {

struct ClassStatistics {
  size_t spans;
  size_t span_bytes;
  // live blocks; sampled ones count in the class that they were allocated as, not in their span's.
  size_t live;
  size_t cached;     // blocks in thread free lists, stashes and remote free lists
  size_t free;       // blocks in the spans' local free lists
  uint64_t refills;  // how often a thread free list ran out
};

// Small spans by their owner.
struct SpanStatistics {
  size_t owned, owned_bytes;      // owned by a thread heap, with live blocks
  size_t central, central_bytes;  // unowned: the next thread that needs a span takes them
  size_t empty, empty_bytes;      // without a live block, kept by a thread heap
  size_t sampled, sampled_bytes;  // with sampled blocks
  // Spans of large blocks, kept for their thread's next request.
  size_t cached_large, cached_large_bytes;
};

struct Statistics {
  std::array<ClassStatistics, kClassCount> classes;
  size_t large_spans, large_bytes;  // blocks of whole pages, huge ones included
  size_t live_bytes;                // live blocks, by allocated size
  size_t cached_bytes;              // free blocks kept for threads
  size_t free_bytes;                // blocks in the spans' local free lists
  SpanStatistics spans;
  // Handed to threads since the start, freed or not; never decreases; larger than the program's own
  // by unused_list_bytes.
  uint64_t allocated_bytes;
  // The part of allocated_bytes that the program never got: still in threads' lists, or there when
  // they ended.
  uint64_t unused_list_bytes;
  // Bytes by which large blocks have grown in place less those by which they shrank: in neither of
  // the two above.
  int64_t net_resized_bytes;
  // Blocks freed by threads other than their span's owner, and published to it.
  uint64_t remote_frees;
  uint64_t realloc_copies, realloc_copied_bytes;  // blocks that realloc had to copy
  size_t heaps;                                   // thread heaps ever made
  size_t live_heaps;                              // heaps that have a thread now
};
Statistics statistics();
// Bytes that the program has freed since the start; each block counts with its final size.
uint64_t freed_bytes(const Statistics& statistics);

// State of one thread's heap, and counts of its thread's work. The counts belong to the heap and
// include those of earlier threads that had it.
struct ThreadStatistics {
  int thread_id;
  size_t list_bytes;   // free blocks in its lists, including blocks of other threads' spans
  size_t empty_bytes;  // its spans without a live block
  size_t free_bytes;   // free blocks in its other spans
  size_t large_bytes;  // large blocks that it freed and may reuse
  size_t live_bytes;   // blocks of its spans that are live, or in any thread's lists
  uint64_t refills, remote_frees;
};
// Calls f for each heap that has a thread now. f runs under locks: it must not allocate or make
// system calls.
void for_each_thread(void (*f)(void* context, const ThreadStatistics& thread), void* context);

// Bytes allocated by the calling thread since it began, by allocated size. Exact except for blocks
// that grew in place, at most one block per size class, a sample that is due, and blocks in lists
// of an earlier thread (park) that this thread had taken before its first call of this function.
// The difference between two calls is exact in spite of these lists. Walks the thread's lists. 0
// without a heap.
uint64_t allocated_by_this_thread();

// Calls f(context, block, allocated_bytes) for each live block. Requires: no other thread allocates
// or frees, and f does neither. Returns false if a span's lists contradict its counts (broken
// metadata), or the helper thread was at work on them for ten seconds (walk_gate.h).
bool for_each_live_block(void (*f)(void* context, void* block, size_t bytes), void* context);

}  // namespace seemalloc::heap

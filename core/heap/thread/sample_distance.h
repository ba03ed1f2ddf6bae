// Sample distance: when the next allocation of a heap's thread is a sample.
//
// A heap counts the bytes that it hands out (ThreadHeap::allocated_bytes); the sample is the
// allocation in which the count reaches sample_at. core/api draws the distances. Threads: the
// heap's owner, except where noted.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "core/base/compiler.h"
#include "core/heap/thread/thread_heap.h"

namespace seemalloc::heap {

enum class DrawReason {
  kSampled,          // the last point was reached
  kBackoffMayEnd,    // the interval may be shorter again
  kIntervalChanged,  // the option has changed: sample_base becomes the new value
};
// Called with a heap that needs a new sample point: sets sample_at. core/api sets this pointer once
// at start. Until then, and in the minimal library, nothing is sampled.
extern void (*draw_sample_distance)(ThreadHeap& heap, DrawReason reason);

// Changes that heaps must notice. The upper half counts changes of the option; distances drawn
// before such a change are stale. The lower half counts the times at which backed-off distances had
// to be drawn again. Distances are exponential, so the rest of one may be drawn again at any time,
// as long as the decision does not depend on the position of its point: never between finding that
// a list holds the point and taking that sample.
extern std::atomic<uint64_t> sample_changes SEEMALLOC_HIDDEN;
SEEMALLOC_NOINLINE void redraw_sample(ThreadHeap& heap);
SEEMALLOC_NOINLINE void reduce_sample_backoff(ThreadHeap& heap);
SEEMALLOC_ALWAYS_INLINE bool sample_changes_seen(const ThreadHeap& heap) {
  return SEEMALLOC_LIKELY(heap.sample_changes == sample_changes.load(std::memory_order_relaxed));
}
SEEMALLOC_ALWAYS_INLINE void redraw_if_stale(ThreadHeap& heap) {
  if (!sample_changes_seen(heap)) redraw_sample(heap);
}
SEEMALLOC_ALWAYS_INLINE void reduce_backoff_if_due(ThreadHeap& heap) {
  if (!sample_changes_seen(heap)) reduce_sample_backoff(heap);
}

// A block of `bytes` is being allocated outside the lists (a large block). Returns true if it is
// not a sample. On false nothing has been done, and large_sample_due() decides. Requires: the
// calling thread owns `heap`.
SEEMALLOC_ALWAYS_INLINE bool count_unsampled(ThreadHeap& heap, size_t bytes) {
  uint64_t allocated_bytes = heap.allocated_bytes + bytes;
  if (SEEMALLOC_UNLIKELY(allocated_bytes >= heap.sample_at) || !sample_changes_seen(heap))
    return false;
  heap.allocated_bytes = allocated_bytes;
  return true;
}
// Counts the block as count_unsampled() does. Returns true if it is the sample.
bool large_sample_due(ThreadHeap& heap, size_t bytes);

// The option has changed: each heap redraws its next sample point at its next slow-path entry.
void invalidate_sample_distances();
// Does the same if any distance is backed off. Called when the heap has grown, and when time has
// passed.
void redraw_backed_off_samples();
// Set by code that draws a backed-off distance.
extern std::atomic<bool> sample_distances_backed_off;
// True if the option `sample` has changed since the heap had no lists: the blocks in them were
// counted under the old value.
bool has_stale_lists(const ThreadHeap& heap);

}  // namespace seemalloc::heap

// Suspends the sampler's back-off while the heap grows, because most memory that stays is allocated
// then.
//
// The sample rate limit (option sample_limit) backs off the interval of a thread that allocates
// very much. Memory that is allocated meanwhile and stays would get too few samples. So each slow
// path that takes a span compares the bytes in spans with their maximum since the last tick. If
// there are more, each thread draws its distance again, without back-off, for the next part of its
// allocations. Decision 0077.
// Threads: any; no lock. Cost: one load where a span is taken; while distances are backed off, one
// load per shard.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "core/base/units.h"
#include "core/heap/thread/sample_distance.h"

namespace seemalloc::heap {

struct ThreadHeap;

// The maximum of bytes in spans since the last tick, and the number of steps by which it rose.
class GrowthWatch {
 public:
  static constexpr size_t kStepBytes = 64 * KiB;
  static constexpr size_t kShare = 64;
  // The least rise that counts as growth: a 64th, since sizes go up and down.
  static constexpr size_t step_bytes(size_t most) {
    return most / kShare > kStepBytes ? most / kShare : kStepBytes;
  }

  // Returns true if the bytes exceed the maximum by a step.
  bool check(size_t bytes_in_spans);
  // If the heap has shrunk, lowers the maximum by half of the difference: the heap may grow again.
  void tick(size_t bytes_in_spans);
  // The maximum: a heap that grows up to it is not seen to grow.
  size_t most() const { return max_bytes_.load(std::memory_order_relaxed); }
  // The number of rises, plus 1.
  uint32_t times() const { return times_.load(std::memory_order_relaxed); }

 private:
  std::atomic<size_t> max_bytes_{0};
  std::atomic<uint32_t> times_{1};
};
extern constinit GrowthWatch growth_watch;

// After the heap has grown a thread allocates this many intervals without back-off; after its
// start, one.
inline constexpr unsigned kIntervalsOfGrowth = 4;

// True if the heap's next distance must be drawn without back-off, because the process's heap
// grows. Called before each draw by the heap's thread.
bool must_draw_without_backoff(ThreadHeap& heap, size_t bytes_in_spans);

// A span has been taken: if the process's heap has grown, makes all threads draw their backed-off
// distances again.
void check_heap_growth_slow();
inline void check_heap_growth() {
  if (sample_distances_backed_off.load(std::memory_order_relaxed)) check_heap_growth_slow();
}

}  // namespace seemalloc::heap

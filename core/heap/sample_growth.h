// A heap that grows is sampled as asked: what stays is allocated then.
//
// The sampling limit (option sample_limit) stretches distances of a thread that allocates very much. Memory that is
// allocated meanwhile and stays would have too few samples. So each slow path that takes a span looks, and when more bytes
// are in spans than ever since the last tick, distances are drawn anew: as asked, for the next part of what each thread
// allocates. Decision 0077.
// Threads: any; no lock. Cost: a load where a span is taken; while there are stretched distances, one for each shard.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "core/base/units.h"

namespace seemalloc::heap {

struct ThreadHeap;

// The most bytes that were in spans since the last tick, and how often it rose by a step.
class GrowthWatch {
 public:
  static constexpr size_t kStep_bytes = 64 * KiB;
  static constexpr size_t kShare = 64;
  // At least so much more is growth: a 64th, for sizes that go up and down.
  static constexpr size_t step_bytes(size_t most) { return most / kShare > kStep_bytes ? most / kShare : kStep_bytes; }

  // True when that is a step more than ever since the last tick.
  bool look(size_t bytes_in_spans);
  // Half of what the heap has shrunk by since is forgotten: it may grow again.
  void tick(size_t bytes_in_spans);
  // Starts at 1.
  uint32_t times() const { return times_.load(std::memory_order_relaxed); }

 private:
  std::atomic<size_t> most_{0};
  std::atomic<uint32_t> times_{1};
};
extern constinit GrowthWatch growth_watch;

// A thread allocates this many intervals as asked when the heap has grown, and one at its start.
inline constexpr unsigned kIntervalsOfGrowth = 4;

// Whether the heap's next distance must be as asked, since the process's heap grows. Called before each draw by the heap's thread.
bool follows_growth(ThreadHeap& heap, size_t bytes_in_spans);

// A span has been taken: if the process's heap has grown, all threads draw their stretched distances anew.
void look_for_growth_slow();
// Set by code that draws a stretched distance.
extern std::atomic<bool> sample_distances_stretched;
inline void look_for_growth() {
  if (sample_distances_stretched.load(std::memory_order_relaxed)) look_for_growth_slow();
}

}  // namespace seemalloc::heap

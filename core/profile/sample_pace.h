// SamplePace: how much longer than asked a thread's sampling interval has to be, so that sampling stays cheap.
//
// A thread that allocates terabytes a second (a buffer allocated and freed in a loop) would spend more time on samples than
// on its work, and learn nothing from the millionth. So a thread takes at most so many samples in a second of its CPU
// time, and a second's in advance: a start-up is sampled as asked. While it has more, the interval doubles; when it has
// far fewer, it halves. The estimate stays unbiased, because each sample stands for what the interval it was drawn with says, and that was
// chosen before the point was drawn.
// Threads: one thread's. Cost: a clock is read once in 1/64 of a second's samples.
#pragma once

#include <cstdint>

namespace seemalloc::profile {

class SamplePace {
 public:
  static constexpr unsigned kMaxStretch = 13;

  // log2 of the factor on the interval.
  unsigned stretch() const { return stretch_; }

  // A sample has been taken; `limit` per second of CPU time are allowed, at least 1.
  void count(uint64_t limit);
  // None has, but time has passed.
  void relax(uint64_t limit);
  // The same, told the time.
  void look(uint64_t cpu_ns, uint64_t limit);

  // Another thread goes on with it: its clock is another.
  void restart();

 private:
  uint64_t since_ns_ = 0;  // when counting began; 0: not yet
  double spent_s_ = 0;     // of the second in advance
  uint32_t samples_ = 0;   // since then
  uint8_t stretch_ = 0;
};

}  // namespace seemalloc::profile

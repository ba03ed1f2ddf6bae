// SamplePace: how much longer than asked a thread's sampling interval has to be, so that sampling stays cheap.
//
// A thread that allocates terabytes a second (a buffer allocated and freed in a loop) would spend more time on samples than
// on its work, and learn nothing from the millionth. So a thread takes at most so many samples in a second of its CPU
// time, and all threads together some in advance: a start-up is sampled as asked, and a thousand short threads are not a thousand
// start-ups. While it has more, the interval doubles; when it has
// far fewer, it halves. The estimate stays unbiased, because each sample stands for what the interval it was drawn with says, and that was
// chosen before the point was drawn.
// Threads: one thread's; what is taken in advance is shared. Cost: a clock is read once in 1/64 of a second's samples, and at a thread's end.
#pragma once

#include <cstdint>

#include "core/base/units.h"

namespace seemalloc::profile {

class SamplePace {
 public:
  static constexpr unsigned kMaxStretch = 13;

  // log2 of the factor on the interval.
  unsigned stretch() const { return stretch_; }

  // So many samples per second of CPU time, at least 1, and so many of all threads in advance.
  struct Limit {
    uint64_t per_second, in_advance;
  };
  // In advance as many as a quarter of a second's: at 512 KiB samples of 1.25 GiB. A second's where more are asked for.
  static Limit limit_for(uint64_t per_second, uint64_t interval_bytes) {
    return {per_second, interval_bytes < 512 * KiB ? per_second : per_second / 4};
  }

  // A sample has been taken.
  void count(Limit limit);
  // None has, but time has passed.
  void relax(Limit limit);
  // The same, told the time.
  void look(uint64_t cpu_ns, Limit limit);
  // The thread ends.
  void end(Limit limit);

  // Another thread goes on with it: its clock is another.
  void restart();

  // As if nothing had been taken in advance.
  static void forget_advance_for_test();

 private:
  uint64_t since_ns_ = 0;  // when counting began; 0: not yet
  double owed_ = 0;        // less than one sample: what was taken beyond the limit, or less than it
  uint32_t advance_ = 0;   // what it has taken in advance
  uint32_t samples_ = 0;   // since then
  uint8_t stretch_ = 0;
};

}  // namespace seemalloc::profile

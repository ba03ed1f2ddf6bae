// SamplePace: how much longer than asked a thread's sampling interval has to be, so that sampling stays cheap.
//
// A thread that allocates terabytes a second (a buffer allocated and freed in a loop) would spend more time on samples than
// on its work, and learn nothing from the millionth. So a thread takes at most so many samples in a second of its CPU
// time, and all threads together some in advance: a start-up is sampled as asked, and a thousand short threads are not a thousand
// start-ups. While it has more, the interval doubles; when it has
// far fewer, it halves. The estimate stays unbiased, because each sample stands for what the interval it was drawn with says, and that was
// chosen before the point was drawn.
// Threads that end before their time has been looked at are charged together, by the process's time; the stretch that follows from it is
// where others begin.
// Threads: one thread's; what is taken in advance, and by threads that ended soon, is shared. Cost: a clock is read once in 1/64 of a second's
// samples, and while there is a stretch twice a second.
#pragma once

#include <cstdint>

#include "core/base/units.h"

namespace seemalloc::profile {

class SamplePace {
 public:
  static constexpr unsigned kMaxStretch = 13;

  // log2 of the factor on the interval.
  unsigned stretch() const {
    unsigned others = looked_ ? 0 : stretch_of_short_threads();
    return stretch_ > others ? stretch_ : others;
  }
  // The same for a thread of which nothing is known.
  static unsigned stretch_of_short_threads();

  // So many samples per second of CPU time, at least 1, and so many of all threads in advance.
  struct Limit {
    uint64_t per_second, in_advance;
  };
  // Of the option `sample_limit`: by default 10,000 samples, which at 512 KiB stand for 5 GiB and at 0.3 to 1.7 µs each cost 0.3 to 1.7 %. At
  // 512 KiB and more a 16th of them in advance (a heap that grows is not limited at all); at the shorter intervals that a user asks for, all.
  static Limit limit_for(uint64_t option, uint64_t interval_bytes) {
    return {option, interval_bytes < 512 * KiB ? option : (option + 15) / 16};
  }

  // The caller does not stretch by more: what was beyond it is forgotten.
  void stretch_at_most(unsigned most) {
    if (stretch_ > most) stretch_ = static_cast<uint8_t>(most);
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

  // Whoever was in here is gone.
  static void reset_in_child();

  // As if nothing had been taken in advance, and no thread had ended.
  static void forget_all_for_test();

 private:
  static void charge_short_threads(Limit limit);
  // So long ago that a look may lower the stretch, and cannot raise it for want of samples.
  bool is_time(uint64_t cpu_ns, Limit limit) const;

  uint64_t since_ns_ = 0;  // when counting began; 0: with the thread
  double owed_ = 0;        // less than one sample: what was taken beyond the limit, or less than it
  uint32_t advance_ = 0;   // what it has taken in advance
  uint32_t samples_ = 0;   // since then
  uint8_t stretch_ = 0;
  bool looked_ = false;    // at this thread's time
};

}  // namespace seemalloc::profile

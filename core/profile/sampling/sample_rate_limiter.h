// SampleRateLimiter: the sample rate limit. Decides how much a thread's sampling interval is raised
// above the requested one (the back-off), so that sampling stays cheap.
//
// A thread that allocates terabytes a second (a buffer allocated and freed in a loop) would spend
// more time on samples than on its work, and its millionth sample would add no information. So the
// number of samples that a thread takes per second of its CPU time is limited. In addition, all
// threads together may take a limited number of samples in advance: so a start-up is sampled at the
// requested interval, but a thousand short threads do not count as a thousand start-ups. While a
// thread exceeds the limit, its interval doubles; while it is far below, the interval halves. The
// estimate stays unbiased: each sample is weighted by the interval that it was drawn with, and that
// interval was chosen before the sample point was drawn.
// Threads that exit before their first check are charged together, against the process's CPU time.
// The back-off that results is the one with which new threads start.
// Threads: an object belongs to one thread; the samples taken in advance, and those of threads that
// exited early, are shared. Cost: one clock read per 1/64 of a second's samples, and two per second
// while backed off.
#pragma once

#include <cstdint>

#include "core/base/units.h"

namespace seemalloc::profile {

class SampleRateLimiter {
 public:
  static constexpr unsigned kMaxBackoff = 13;

  // log2 of the factor by which the interval is raised.
  unsigned backoff_log2() const {
    unsigned others = checked_ ? 0 : short_threads_backoff();
    return backoff_log2_ > others ? backoff_log2_ : others;
  }
  // The same for a thread without any history.
  static unsigned short_threads_backoff();

  // The limits: samples per second of CPU time, at least 1; and samples of all threads together in
  // advance.
  struct Limit {
    uint64_t per_second, burst;
  };
  // The limit for the option `sample_limit`. Its default is 10,000 samples, which stand for 5 GiB
  // at 512 KiB each and take 0.3 to 1.7 % of a second at 0.3 to 1.7 µs each. The advance is a 16th
  // of the option at 512 KiB and more (a growing heap is not limited at all), and all of it at
  // shorter intervals, which only a user chooses.
  static Limit limit_for(uint64_t option, uint64_t interval_bytes) {
    return {option, interval_bytes < 512 * KiB ? option : (option + 15) / 16};
  }

  // Caps the back-off at `most`, the maximum that the caller applies. The excess is discarded.
  void cap_backoff(unsigned most) {
    if (backoff_log2_ > most) backoff_log2_ = static_cast<uint8_t>(most);
  }

  // Called after each sample.
  void count_sample(Limit limit);
  // Called when no sample was taken but time has passed.
  void check_idle(Limit limit);
  // Checks the rate up to `cpu_ns`, the time of the thread's CPU clock.
  void check(uint64_t cpu_ns, Limit limit);
  // Called when the thread exits.
  void thread_exits(Limit limit);

  // Passes the object to another thread, which has another CPU clock.
  void adopt();

  // In a forked child: releases the shared state, which a thread of the parent may have held.
  static void reset_in_child();

  // Resets the advance and the charges of threads that exited.
  static void reset_for_test();

 private:
  static void check_short_threads(Limit limit);
  // Whether the last check is so long ago that another may lower the back-off, and that the minimum
  // of one sample, which a check assumes, cannot raise it.
  bool is_check_due(uint64_t cpu_ns, Limit limit) const;

  uint64_t since_ns_ = 0;  // start of counting; 0: the thread's start
  double excess_ = 0;      // between -1 and 1 sample: taken above the limit, or (negative) below it
  uint32_t borrowed_samples_ = 0;  // samples that it has taken in advance
  uint32_t samples_ = 0;           // samples since since_ns_
  uint8_t backoff_log2_ = 0;
  bool checked_ = false;  // whether this thread's rate has been checked
};

}  // namespace seemalloc::profile

#include "core/profile/sampling/sample_rate_limiter.h"

#include <gtest/gtest.h>

#include <thread>

#include "core/os/kernel/clock.h"

namespace seemalloc::profile {
namespace {

constexpr uint64_t kLimit = 6400;  // 100 in 1/64 s
constexpr SampleRateLimiter::Limit kBoth{kLimit, kLimit}, kSmall{kLimit, 64},
    kNone{UINT32_MAX, UINT32_MAX};

class Paces : public testing::Test {
 protected:
  void SetUp() override { SampleRateLimiter::reset_for_test(); }
};

// Runs a thread that would take `rate` samples per second at the requested interval, with 64 checks
// per second. Returns the samples of the last period, scaled to a second.
double run(SampleRateLimiter& pace, double rate, unsigned periods, uint64_t* now) {
  double taken = 0;
  for (unsigned i = 0; i < periods; i++) {
    taken = rate / 64 / static_cast<double>(uint64_t{1} << pace.backoff_log2());
    for (double n = 1; n <= taken; n++) pace.count_sample(kNone);  // without checks of its own
    *now += kSecondNs / 64;
    pace.check(*now, kBoth);
  }
  return taken * 64;
}

void work(uint64_t ns) {
  for (uint64_t until = os::thread_cpu_ns() + ns; os::thread_cpu_ns() < until;) {
  }
}

TEST_F(Paces, DoesNotLimitAThreadWithFewSamples) {
  SampleRateLimiter pace;
  uint64_t now = 1;
  pace.check(now, kBoth);
  run(pace, kLimit * 0.9, 200, &now);
  EXPECT_EQ(pace.backoff_log2(), 0u);
}

TEST_F(Paces, StaysBelowTheLimitAndNotFarBelow) {
  for (double rate : {2.0 * kLimit, 17.0 * kLimit, 1000.0 * kLimit}) {
    SampleRateLimiter pace;
    uint64_t now = 1;
    pace.check(now, kBoth);
    double taken = run(pace, rate, 70, &now);  // includes a second's samples in advance
    EXPECT_LE(taken, kLimit) << rate;
    EXPECT_GE(taken, kLimit / 4) << rate;
    unsigned settled = pace.backoff_log2();
    run(pace, rate, 50, &now);
    EXPECT_EQ(pace.backoff_log2(), settled) << "goes to and fro at " << rate;
  }
}

TEST_F(Paces, BackoffEndsWhenTheRateFalls) {
  SampleRateLimiter pace;
  uint64_t now = 1;
  pace.check(now, kBoth);
  run(pace, 5000.0 * kLimit, 70, &now);
  EXPECT_GT(pace.backoff_log2(), 10u);
  run(pace, kLimit / 100.0, 3, &now);
  EXPECT_EQ(pace.backoff_log2(), 0u);
}

TEST_F(Paces, LeavesABurstAlone) {
  SampleRateLimiter pace;
  uint64_t now = 1;
  pace.check(now, kBoth);
  run(pace, kLimit * 50.0, 1, &now);
  EXPECT_EQ(pace.backoff_log2(), 0u) << "less than a second's";
  run(pace, kLimit / 10.0, 64, &now);
  run(pace, kLimit * 50.0, 1, &now);
  EXPECT_EQ(pace.backoff_log2(), 0u) << "the samples not taken meanwhile are allowed";
  run(pace, kLimit * 50.0, 2, &now);
  EXPECT_GT(pace.backoff_log2(), 0u);
}

// A burst of 256 MiB within a few milliseconds, in a heap that does not grow, plus three standard
// deviations.
TEST_F(Paces, BurstIsSampledAtTheConfiguredInterval) {
  SampleRateLimiter::Limit limit = SampleRateLimiter::limit_for(10000, 512 * KiB);
  SampleRateLimiter pace;
  pace.check(1, limit);
  for (uint64_t samples = 1; samples <= 512 + 68; samples++) {
    pace.count_sample(kNone);
    if (samples % 16 == 0) pace.check(samples * 5 * kMicrosecondNs, limit);
    ASSERT_EQ(pace.backoff_log2(), 0u) << samples;
  }
}

TEST_F(Paces, HasABound) {
  SampleRateLimiter pace;
  pace.check(1, {1, 1});
  for (unsigned i = 0; i < 1000; i++) pace.count_sample(kNone);
  pace.check(2, {1, 1});
  EXPECT_EQ(pace.backoff_log2(), SampleRateLimiter::kMaxBackoff);
}

TEST_F(Paces, ClocksOfDifferentThreadsAreNotCompared) {
  SampleRateLimiter pace;
  pace.check(50 * kSecondNs, kBoth);
  for (unsigned i = 0; i < 1000; i++) pace.count_sample(kNone);
  pace.adopt();
  // Earlier than before: if it were compared, the difference would be negative.
  pace.check(1, kBoth);
  EXPECT_EQ(pace.backoff_log2(), 0u);
}

TEST_F(Paces, AClockThatBeginsAnewIsNoLongTime) {
  SampleRateLimiter pace;
  uint64_t now = 1;
  pace.check(now, kBoth);
  run(pace, 1000.0 * kLimit, 70, &now);
  unsigned backoff_log2 = pace.backoff_log2();
  EXPECT_GT(backoff_log2, 5u);
  pace.check(5, kBoth);  // in a forked child
  EXPECT_EQ(pace.backoff_log2(), backoff_log2);
}

// A thousand threads that exit soon count as one start-up. Each takes about 50 samples, of which
// its CPU time allows 2.
TEST_F(Paces, ShortThreadsShareTheBurst) {
  constexpr unsigned kThreads = 1000, kSamples = 50;
  SampleRateLimiter pace;  // belongs to the heap that they use one after the other
  double taken = 0;
  for (unsigned t = 0; t < kThreads; t++) {
    pace.adopt();
    double here = kSamples / static_cast<double>(uint64_t{1} << pace.backoff_log2());
    for (double n = 1; n <= here; n++) pace.count_sample(kNone);
    taken += here;
    pace.check(kSecondNs / 3200, kBoth);
  }
  EXPECT_LE(taken, kLimit + 2 * kThreads + 500);
  EXPECT_GE(taken, kLimit);
}

// Fewer than one sample per check.
TEST_F(Paces, ASmallLimitIsOne) {
  for (uint64_t limit : {1, 10, 63, 64, 100}) {
    SampleRateLimiter::reset_for_test();
    SampleRateLimiter pace;
    uint64_t now = 1;
    pace.check(now, {limit, limit});
    double taken = 0, seconds = 30;
    for (int i = 0; i < seconds * 1000; i++) {  // without a limit it would take 1,000 per second
      double each = 1 / static_cast<double>(uint64_t{1} << pace.backoff_log2());
      if (static_cast<uint64_t>(taken + each) != static_cast<uint64_t>(taken)) {
        pace.count_sample(kNone);
        pace.check(now, {limit, limit});
      }
      taken += each;
      now += kSecondNs / 1000;
    }
    EXPECT_LE(taken, 2.0 * static_cast<double>(limit) * seconds + 30) << limit;
    EXPECT_GE(taken, static_cast<double>(limit)) << limit;
  }
}

// With a limit of two samples per second, a thread that takes none does not back off.
TEST_F(Paces, NoSamplesRaiseNothing) {
  SampleRateLimiter pace;
  SampleRateLimiter::Limit limit{2, 1};
  uint64_t now = 1;
  pace.check(now, limit);
  for (unsigned n = 0; n < 20; n++) pace.count_sample(kNone);
  pace.check(++now, limit);
  unsigned backoff_log2 = pace.backoff_log2();
  EXPECT_GT(backoff_log2, 0u);
  for (unsigned t = 0; t < 50; t++) {
    work(kSecondNs / 1000);
    pace.check_idle(limit);
    EXPECT_EQ(pace.backoff_log2(), backoff_log2);
  }
}

// Threads with a few samples each: none of them alone would reach the limit.
TEST_F(Paces, ThreadsOfAFewSamplesAreLimitedTogether) {
  uint64_t taken = 0, backed_off_after = 0;
  for (unsigned t = 0; t < 100000; t++) {
    SampleRateLimiter pace;
    for (unsigned n = 0; n < 4; n++) {
      if (t % (1u << pace.backoff_log2()) != 0) continue;
      pace.count_sample(kSmall);
      taken++;
    }
    if (backed_off_after == 0 && pace.backoff_log2() != 0) backed_off_after = taken;
    pace.thread_exits(kSmall);
  }
  EXPECT_GT(SampleRateLimiter::short_threads_backoff(), 0u);
  EXPECT_LT(taken, 200000u) << "of 400,000, in less than a second";
  EXPECT_GE(backed_off_after, 100u);
  SampleRateLimiter pace;
  pace.check(1, kSmall);
  EXPECT_EQ(pace.backoff_log2(), 0u)
      << "a thread that has been checked is measured by its own time";
}

// Runs short threads until their back-off is at least a factor of 8.
void back_off_short_threads() {
  for (unsigned t = 0; t < 100000 && SampleRateLimiter::short_threads_backoff() < 3; t++) {
    SampleRateLimiter pace;
    for (unsigned n = 0; n < kSmall.per_second / 64; n++) pace.count_sample(kSmall);
    pace.thread_exits(kSmall);
  }
  ASSERT_GE(SampleRateLimiter::short_threads_backoff(), 3u);
}

TEST_F(Paces, ThreadsOfAFewSamplesComeBack) {
  back_off_short_threads();
  for (unsigned t = 0; t < 10000 && SampleRateLimiter::short_threads_backoff() != 0; t++) {
    work(3 * kSecondNs / 1000);
    SampleRateLimiter pace;
    pace.count_sample(kSmall);
    pace.thread_exits(kSmall);
  }
  EXPECT_EQ(SampleRateLimiter::short_threads_backoff(), 0u);
}

// No further threads exit.
TEST_F(Paces, ThreadsOfAFewSamplesComeBackByTimeAlone) {
  back_off_short_threads();
  for (unsigned t = 0; t < 1000 && SampleRateLimiter::short_threads_backoff() != 0; t++) {
    work(20 * kSecondNs / 1000);
    SampleRateLimiter pace;  // of a thread that has just started
    pace.check_idle(kSmall);
  }
  EXPECT_EQ(SampleRateLimiter::short_threads_backoff(), 0u);
}

TEST_F(Paces, LongThreadIsMeasuredByItsOwnTime) {
  back_off_short_threads();
  unsigned backoff_log2 = SampleRateLimiter::short_threads_backoff();
  std::thread([&] {
    SampleRateLimiter pace;
    EXPECT_EQ(pace.backoff_log2(), backoff_log2);
    work(20 * kSecondNs / 1000);
    pace.check_idle(kSmall);
    EXPECT_EQ(pace.backoff_log2(), 0u);
  }).join();
}

// They are charged by their own clocks: many that exit at once are not a burst.
TEST_F(Paces, CheckedThreadsAreNotChargedWithTheShortOnes) {
  for (unsigned t = 0; t < 1000; t++) {
    SampleRateLimiter pace;
    pace.check(1, kSmall);
    for (unsigned n = 0; n < 8; n++) pace.count_sample(kNone);
    pace.thread_exits(kSmall);
  }
  EXPECT_EQ(SampleRateLimiter::short_threads_backoff(), 0u);
}

TEST_F(Paces, ReusedHeapDropsAnUnconfirmedBackoff) {
  SampleRateLimiter pace;
  uint64_t now = 1;
  pace.check(now, kBoth);
  run(pace, 1000.0 * kLimit, 70, &now);
  unsigned backoff_log2 = pace.backoff_log2();
  EXPECT_GT(backoff_log2, 5u);
  pace.adopt();
  EXPECT_EQ(pace.backoff_log2(), backoff_log2);
  for (unsigned t = 0; t < backoff_log2; t++) pace.adopt();
  EXPECT_EQ(pace.backoff_log2(), 0u);
}

TEST_F(Paces, CountsByTheThreadsOwnClock) {
  SampleRateLimiter pace;
  // Far more than 1,000 a second.
  for (unsigned i = 0; i < 100000; i++) pace.count_sample({1000, 1000});
  EXPECT_GT(pace.backoff_log2(), 0u);
}

}  // namespace
}  // namespace seemalloc::profile

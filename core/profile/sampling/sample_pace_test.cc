#include "core/profile/sampling/sample_pace.h"

#include <gtest/gtest.h>

#include <thread>

#include "core/os/kernel/clock.h"

namespace seemalloc::profile {
namespace {

constexpr uint64_t kLimit = 6400;  // 100 in 1/64 s
constexpr SamplePace::Limit kBoth{kLimit, kLimit}, kSmall{kLimit, 64},
    kNone{UINT32_MAX, UINT32_MAX};

class Paces : public testing::Test {
 protected:
  void SetUp() override { SamplePace::forget_all_for_test(); }
};

// Runs a thread that would take `rate` samples per second at the requested interval, with 64 checks
// per second. Returns the samples of the last period, scaled to a second.
double run(SamplePace& pace, double rate, unsigned periods, uint64_t* now) {
  double taken = 0;
  for (unsigned i = 0; i < periods; i++) {
    taken = rate / 64 / static_cast<double>(uint64_t{1} << pace.stretch());
    for (double n = 1; n <= taken; n++) pace.count(kNone);  // without checks of its own
    *now += kSecond_ns / 64;
    pace.look(*now, kBoth);
  }
  return taken * 64;
}

void work(uint64_t ns) {
  for (uint64_t until = os::thread_cpu_ns() + ns; os::thread_cpu_ns() < until;) {
  }
}

TEST_F(Paces, LeavesAThreadAloneThatSamplesLittle) {
  SamplePace pace;
  uint64_t now = 1;
  pace.look(now, kBoth);
  run(pace, kLimit * 0.9, 200, &now);
  EXPECT_EQ(pace.stretch(), 0u);
}

TEST_F(Paces, StaysBelowTheLimitAndNotFarBelow) {
  for (double rate : {2.0 * kLimit, 17.0 * kLimit, 1000.0 * kLimit}) {
    SamplePace pace;
    uint64_t now = 1;
    pace.look(now, kBoth);
    double taken = run(pace, rate, 70, &now);  // includes a second's samples in advance
    EXPECT_LE(taken, kLimit) << rate;
    EXPECT_GE(taken, kLimit / 4) << rate;
    unsigned settled = pace.stretch();
    run(pace, rate, 50, &now);
    EXPECT_EQ(pace.stretch(), settled) << "goes to and fro at " << rate;
  }
}

TEST_F(Paces, ComesBackWhenTheRateFalls) {
  SamplePace pace;
  uint64_t now = 1;
  pace.look(now, kBoth);
  run(pace, 5000.0 * kLimit, 70, &now);
  EXPECT_GT(pace.stretch(), 10u);
  run(pace, kLimit / 100.0, 3, &now);
  EXPECT_EQ(pace.stretch(), 0u);
}

TEST_F(Paces, LeavesABurstAlone) {
  SamplePace pace;
  uint64_t now = 1;
  pace.look(now, kBoth);
  run(pace, kLimit * 50.0, 1, &now);
  EXPECT_EQ(pace.stretch(), 0u) << "less than a second's";
  run(pace, kLimit / 10.0, 64, &now);
  run(pace, kLimit * 50.0, 1, &now);
  EXPECT_EQ(pace.stretch(), 0u) << "what was not taken meanwhile";
  run(pace, kLimit * 50.0, 2, &now);
  EXPECT_GT(pace.stretch(), 0u);
}

// A burst of 256 MiB within a few milliseconds, in a heap that does not grow, plus three standard
// deviations.
TEST_F(Paces, ABurstIsSampledAsAskedByDefault) {
  SamplePace::Limit limit = SamplePace::limit_for(10000, 512 * KiB);
  SamplePace pace;
  pace.look(1, limit);
  for (uint64_t samples = 1; samples <= 512 + 68; samples++) {
    pace.count(kNone);
    if (samples % 16 == 0) pace.look(samples * 5 * kMicrosecond_ns, limit);
    ASSERT_EQ(pace.stretch(), 0u) << samples;
  }
}

TEST_F(Paces, HasABound) {
  SamplePace pace;
  pace.look(1, {1, 1});
  for (unsigned i = 0; i < 1000; i++) pace.count(kNone);
  pace.look(2, {1, 1});
  EXPECT_EQ(pace.stretch(), SamplePace::kMaxStretch);
}

TEST_F(Paces, AnotherThreadsClockIsNotComparedWithThisOnes) {
  SamplePace pace;
  pace.look(50 * kSecond_ns, kBoth);
  for (unsigned i = 0; i < 1000; i++) pace.count(kNone);
  pace.restart();
  // Earlier than before: if it were compared, the difference would be negative.
  pace.look(1, kBoth);
  EXPECT_EQ(pace.stretch(), 0u);
}

TEST_F(Paces, AClockThatBeginsAnewIsNoLongTime) {
  SamplePace pace;
  uint64_t now = 1;
  pace.look(now, kBoth);
  run(pace, 1000.0 * kLimit, 70, &now);
  unsigned stretch = pace.stretch();
  EXPECT_GT(stretch, 5u);
  pace.look(5, kBoth);  // in a forked child
  EXPECT_EQ(pace.stretch(), stretch);
}

// A thousand threads that exit soon count as one start-up. Each takes about 50 samples, of which
// its CPU time allows 2.
TEST_F(Paces, ThreadsThatEndSoonShareWhatIsTakenInAdvance) {
  constexpr unsigned kThreads = 1000, kSamples = 50;
  SamplePace pace;  // belongs to the heap that they use one after the other
  double taken = 0;
  for (unsigned t = 0; t < kThreads; t++) {
    pace.restart();
    double here = kSamples / static_cast<double>(uint64_t{1} << pace.stretch());
    for (double n = 1; n <= here; n++) pace.count(kNone);
    taken += here;
    pace.look(kSecond_ns / 3200, kBoth);
  }
  EXPECT_LE(taken, kLimit + 2 * kThreads + 500);
  EXPECT_GE(taken, kLimit);
}

// Fewer than one sample per check.
TEST_F(Paces, ASmallLimitIsOne) {
  for (uint64_t limit : {1, 10, 63, 64, 100}) {
    SamplePace::forget_all_for_test();
    SamplePace pace;
    uint64_t now = 1;
    pace.look(now, {limit, limit});
    double taken = 0, seconds = 30;
    for (int i = 0; i < seconds * 1000; i++) {  // without a limit it would take 1,000 per second
      double each = 1 / static_cast<double>(uint64_t{1} << pace.stretch());
      if (static_cast<uint64_t>(taken + each) != static_cast<uint64_t>(taken)) {
        pace.count(kNone);
        pace.look(now, {limit, limit});
      }
      taken += each;
      now += kSecond_ns / 1000;
    }
    EXPECT_LE(taken, 2.0 * static_cast<double>(limit) * seconds + 30) << limit;
    EXPECT_GE(taken, static_cast<double>(limit)) << limit;
  }
}

// With a limit of two samples per second, a thread that takes none does not back off.
TEST_F(Paces, NoSamplesRaiseNothing) {
  SamplePace pace;
  SamplePace::Limit limit{2, 1};
  uint64_t now = 1;
  pace.look(now, limit);
  for (unsigned n = 0; n < 20; n++) pace.count(kNone);
  pace.look(++now, limit);
  unsigned stretch = pace.stretch();
  EXPECT_GT(stretch, 0u);
  for (unsigned t = 0; t < 50; t++) {
    work(kSecond_ns / 1000);
    pace.relax(limit);
    EXPECT_EQ(pace.stretch(), stretch);
  }
}

// Threads with a few samples each: none of them alone would reach the limit.
TEST_F(Paces, ThreadsOfAFewSamplesAreLimitedTogether) {
  uint64_t taken = 0, stretched_by = 0;
  for (unsigned t = 0; t < 100000; t++) {
    SamplePace pace;
    for (unsigned n = 0; n < 4; n++) {
      if (t % (1u << pace.stretch()) != 0) continue;
      pace.count(kSmall);
      taken++;
    }
    if (stretched_by == 0 && pace.stretch() != 0) stretched_by = taken;
    pace.end(kSmall);
  }
  EXPECT_GT(SamplePace::stretch_of_short_threads(), 0u);
  EXPECT_LT(taken, 200000u) << "of 400,000, in what is no second";
  EXPECT_GE(stretched_by, 100u);
  SamplePace pace;
  pace.look(1, kSmall);
  EXPECT_EQ(pace.stretch(), 0u) << "a thread that has been looked at is measured by its own time";
}

// Runs short threads until their back-off is at least a factor of 8.
void stretch_short_threads() {
  for (unsigned t = 0; t < 100000 && SamplePace::stretch_of_short_threads() < 3; t++) {
    SamplePace pace;
    for (unsigned n = 0; n < kSmall.per_second / 64; n++) pace.count(kSmall);
    pace.end(kSmall);
  }
  ASSERT_GE(SamplePace::stretch_of_short_threads(), 3u);
}

TEST_F(Paces, ThreadsOfAFewSamplesComeBack) {
  stretch_short_threads();
  for (unsigned t = 0; t < 10000 && SamplePace::stretch_of_short_threads() != 0; t++) {
    work(3 * kSecond_ns / 1000);
    SamplePace pace;
    pace.count(kSmall);
    pace.end(kSmall);
  }
  EXPECT_EQ(SamplePace::stretch_of_short_threads(), 0u);
}

// No further threads exit.
TEST_F(Paces, ThreadsOfAFewSamplesComeBackByTimeAlone) {
  stretch_short_threads();
  for (unsigned t = 0; t < 1000 && SamplePace::stretch_of_short_threads() != 0; t++) {
    work(20 * kSecond_ns / 1000);
    SamplePace pace;  // of a thread that has just started
    pace.relax(kSmall);
  }
  EXPECT_EQ(SamplePace::stretch_of_short_threads(), 0u);
}

TEST_F(Paces, WhoLivesOnIsMeasuredByItsOwnTime) {
  stretch_short_threads();
  unsigned stretch = SamplePace::stretch_of_short_threads();
  std::thread([&] {
    SamplePace pace;
    EXPECT_EQ(pace.stretch(), stretch);
    work(20 * kSecond_ns / 1000);
    pace.relax(kSmall);
    EXPECT_EQ(pace.stretch(), 0u);
  }).join();
}

// They are charged by their own clocks: many that exit at once are not a burst.
TEST_F(Paces, ThreadsThatHaveBeenLookedAtAreNotChargedWithTheShortOnes) {
  for (unsigned t = 0; t < 1000; t++) {
    SamplePace pace;
    pace.look(1, kSmall);
    for (unsigned n = 0; n < 8; n++) pace.count(kNone);
    pace.end(kSmall);
  }
  EXPECT_EQ(SamplePace::stretch_of_short_threads(), 0u);
}

TEST_F(Paces, AHeapThatIsHandedOnForgetsAStretchThatNobodyConfirms) {
  SamplePace pace;
  uint64_t now = 1;
  pace.look(now, kBoth);
  run(pace, 1000.0 * kLimit, 70, &now);
  unsigned stretch = pace.stretch();
  EXPECT_GT(stretch, 5u);
  pace.restart();
  EXPECT_EQ(pace.stretch(), stretch);
  for (unsigned t = 0; t < stretch; t++) pace.restart();
  EXPECT_EQ(pace.stretch(), 0u);
}

TEST_F(Paces, CountsByTheThreadsOwnClock) {
  SamplePace pace;
  // Far more than 1,000 a second.
  for (unsigned i = 0; i < 100000; i++) pace.count({1000, 1000});
  EXPECT_GT(pace.stretch(), 0u);
}

}  // namespace
}  // namespace seemalloc::profile

#include "core/heap/maintenance/pressure_gauge.h"

#include <gtest/gtest.h>

namespace seemalloc::heap {
namespace {

constexpr size_t kLimit = 1000 * MiB;

struct Clock {
  PressureGauge gauge;
  uint64_t now = 5 * kSecond_ns;
  uint64_t hits = 0;
  unsigned level = 0;

  bool after(uint64_t ms, size_t mib, bool stalled = false, size_t limit = kLimit) {
    now += ms * kMillisecond_ns;
    return gauge.update({now, limit, mib * MiB, hits, stalled, level});
  }
};

TEST(PressureGauge, BeginsAtNineTenthsAndEndsTwoSecondsBelowEight) {
  Clock c;
  EXPECT_FALSE(c.after(0, 890));
  EXPECT_TRUE(c.after(10, 910));
  EXPECT_TRUE(c.after(10, 850)) << "no flutter";
  EXPECT_TRUE(c.after(10000, 810)) << "it lasts, as long as it takes";
  EXPECT_TRUE(c.after(10, 700));
  EXPECT_TRUE(c.after(1900, 700));
  EXPECT_FALSE(c.after(100, 700));
  EXPECT_FALSE(c.after(10, 850)) << "from below it takes nine tenths again";
  EXPECT_TRUE(c.after(10, 950));
  EXPECT_EQ(c.gauge.times(), 2u);
}

TEST(PressureGauge, AStallCountsWithoutALimit) {
  Clock c;
  EXPECT_FALSE(c.after(0, 10, false, SIZE_MAX));
  EXPECT_TRUE(c.after(10, 10, true, SIZE_MAX));
  EXPECT_TRUE(c.after(1000, 10, false, SIZE_MAX));
  EXPECT_FALSE(c.after(1000, 10, false, SIZE_MAX));
  EXPECT_EQ(c.gauge.times(), 1u);
}

TEST(PressureGauge, HitsCountWhereTheMemoryIsTheProgramsOwn) {
  Clock c;
  c.hits = 100;
  EXPECT_FALSE(c.after(0, 800)) << "hits of before we looked";
  EXPECT_FALSE(c.after(10, 800));
  c.hits = 101;
  EXPECT_FALSE(c.after(10, 700)) << "files fill the group";
  c.hits = 102;
  EXPECT_TRUE(c.after(10, 800));
  c.hits = 0;  // not read
  EXPECT_TRUE(c.after(10, 300));
  EXPECT_FALSE(c.after(2000, 300));
}

TEST(PressureGauge, EachLevelCountsItsHits) {
  Clock c;
  c.hits = 100;
  EXPECT_FALSE(c.after(0, 800));
  c.level = 1;
  c.hits = 500;
  EXPECT_FALSE(c.after(10, 800)) << "of another level, which has less room now";
  c.level = 0;
  c.hits = 100;
  EXPECT_FALSE(c.after(10, 800));
  c.level = 1;
  c.hits = 501;
  EXPECT_TRUE(c.after(10, 800)) << "it was met again, also while the other one was read";
  EXPECT_FALSE(c.after(2000, 700));
  c.gauge.forget_hits();
  c.hits = 900;
  EXPECT_FALSE(c.after(10, 800)) << "of another group";
  c.hits = 901;
  EXPECT_TRUE(c.after(10, 800));
}

TEST(PressureGauge, ALimitThatGoesAwayEndsIt) {
  Clock c;
  EXPECT_TRUE(c.after(0, 990));
  EXPECT_TRUE(c.after(10, 990, false, SIZE_MAX));
  EXPECT_FALSE(c.after(2000, 990, false, SIZE_MAX));
}

TEST(PurgePace, CostsAFewPercent) {
  PurgePace pace;
  EXPECT_TRUE(pace.due(1));
  uint64_t now = kSecond_ns;
  // 4 MiB: one millisecond for the round, and a thousand faults of 1 µs.
  pace.done(now, kMillisecond_ns, 4 * MiB);
  EXPECT_FALSE(pace.due(now + 100 * kMillisecond_ns));
  EXPECT_TRUE(pace.due(now + 102 * kMillisecond_ns));
}

TEST(PurgePace, StaysWithinBounds) {
  PurgePace pace;
  pace.done(0, 1, 64 * KiB);
  EXPECT_FALSE(pace.due(PurgePace::kShortest_ns - 1));
  EXPECT_TRUE(pace.due(PurgePace::kShortest_ns));
  pace.done(0, 100 * kSecond_ns, GiB);
  EXPECT_FALSE(pace.due(PurgePace::kLongest_ns - 1));
  EXPECT_TRUE(pace.due(PurgePace::kLongest_ns));
  EXPECT_FALSE(pace.due_when_scarce(PurgePace::kLongestScarce_ns - 1));
  EXPECT_TRUE(pace.due_when_scarce(PurgePace::kLongestScarce_ns));
}

TEST(PurgePace, NoHurryWhereThereIsHardlyAnything) {
  PurgePace pace;
  pace.done(0, 10 * kMicrosecond_ns, 4096);
  EXPECT_FALSE(pace.due(400 * kMillisecond_ns));
  EXPECT_FALSE(pace.due_when_scarce(99 * kMillisecond_ns));
  EXPECT_TRUE(pace.due_when_scarce(100 * kMillisecond_ns));
  // A round that finds nothing takes time in a large heap.
  pace.done(0, 200 * kMillisecond_ns, 0);
  EXPECT_FALSE(pace.due(9 * kSecond_ns));
}

// Rounds of one second each, as often as allowed.
TEST(PurgePace, TheSharesHoldInALargeHeap) {
  for (bool scarce : {false, true}) {
    PurgePace pace;
    uint64_t spent = 0, now = 0;
    while (now < 600 * kSecond_ns) {
      if (scarce ? pace.due_when_scarce(now) : pace.due(now)) {
        now += kSecond_ns;
        spent += kSecond_ns;
        pace.done(now, kSecond_ns, MiB);
      }
      now += 5 * kMillisecond_ns;
    }
    EXPECT_LE(spent, (scarce ? 62 : 13) * kSecond_ns);
    EXPECT_GE(spent, (scarce ? 50 : 10) * kSecond_ns);
  }
}

TEST(PurgePace, ManyAtOnceWhereMemoryIsScarce) {
  PurgePace pace;
  uint64_t now = 5 * kSecond_ns;
  int rounds = 0;
  for (; pace.due_when_scarce(now); now += 20 * kMillisecond_ns) {
    pace.done(now, 50 * kMillisecond_ns, 200 * MiB);  // 100 ms in all
    rounds++;
  }
  EXPECT_GE(rounds, 10) << "bursts close behind each other";
  EXPECT_LE(rounds, 13);
}

}  // namespace
}  // namespace seemalloc::heap

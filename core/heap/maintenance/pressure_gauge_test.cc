#include "core/heap/maintenance/pressure_gauge.h"

#include <gtest/gtest.h>

namespace seemalloc::heap {
namespace {

constexpr size_t kLimit = 1000 * MiB;

struct Clock {
  PressureGauge gauge;
  uint64_t now = 5 * kSecondNs;
  uint64_t hits = 0;
  unsigned level = 0;

  bool after(uint64_t ms, size_t mib, bool stalled = false, size_t limit = kLimit) {
    now += ms * kMillisecondNs;
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

TEST(PressureGauge, RemovingTheLimitEndsShortage) {
  Clock c;
  EXPECT_TRUE(c.after(0, 990));
  EXPECT_TRUE(c.after(10, 990, false, SIZE_MAX));
  EXPECT_FALSE(c.after(2000, 990, false, SIZE_MAX));
}

TEST(PurgePace, CostsAFewPercent) {
  PurgePace pace;
  EXPECT_TRUE(pace.due(1));
  uint64_t now = kSecondNs;
  // 4 MiB: one millisecond for the round, and a thousand faults of 1 µs.
  pace.done(now, kMillisecondNs, 4 * MiB);
  EXPECT_FALSE(pace.due(now + 100 * kMillisecondNs));
  EXPECT_TRUE(pace.due(now + 102 * kMillisecondNs));
}

TEST(PurgePace, StaysWithinBounds) {
  PurgePace pace;
  pace.done(0, 1, 64 * KiB);
  EXPECT_FALSE(pace.due(PurgePace::kMinNs - 1));
  EXPECT_TRUE(pace.due(PurgePace::kMinNs));
  pace.done(0, 100 * kSecondNs, GiB);
  EXPECT_FALSE(pace.due(PurgePace::kMaxNs - 1));
  EXPECT_TRUE(pace.due(PurgePace::kMaxNs));
  EXPECT_FALSE(pace.due_when_scarce(PurgePace::kMaxScarceNs - 1));
  EXPECT_TRUE(pace.due_when_scarce(PurgePace::kMaxScarceNs));
}

TEST(PurgePace, NoHurryWithLittleFreeMemory) {
  PurgePace pace;
  pace.done(0, 10 * kMicrosecondNs, 4096);
  EXPECT_FALSE(pace.due(400 * kMillisecondNs));
  EXPECT_FALSE(pace.due_when_scarce(99 * kMillisecondNs));
  EXPECT_TRUE(pace.due_when_scarce(100 * kMillisecondNs));
  // A round that finds nothing takes time in a large heap.
  pace.done(0, 200 * kMillisecondNs, 0);
  EXPECT_FALSE(pace.due(9 * kSecondNs));
}

// Rounds of one second each, as often as allowed.
TEST(PurgePace, TheSharesHoldInALargeHeap) {
  for (bool scarce : {false, true}) {
    PurgePace pace;
    uint64_t spent = 0, now = 0;
    while (now < 600 * kSecondNs) {
      if (scarce ? pace.due_when_scarce(now) : pace.due(now)) {
        now += kSecondNs;
        spent += kSecondNs;
        pace.done(now, kSecondNs, MiB);
      }
      now += 5 * kMillisecondNs;
    }
    EXPECT_LE(spent, (scarce ? 62 : 13) * kSecondNs);
    EXPECT_GE(spent, (scarce ? 50 : 10) * kSecondNs);
  }
}

TEST(PurgePace, ManyAtOnceWhereMemoryIsScarce) {
  PurgePace pace;
  uint64_t now = 5 * kSecondNs;
  int rounds = 0;
  for (; pace.due_when_scarce(now); now += 20 * kMillisecondNs) {
    pace.done(now, 50 * kMillisecondNs, 200 * MiB);  // 100 ms in all
    rounds++;
  }
  EXPECT_GE(rounds, 10) << "bursts close behind each other";
  EXPECT_LE(rounds, 13);
}

}  // namespace
}  // namespace seemalloc::heap

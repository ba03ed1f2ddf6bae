// The delay for a simulated process: memory that is soon reused is kept longer, memory that is not
// is purged sooner.
#include "core/pages/policy/purge_delay.h"

#include <gtest/gtest.h>

namespace seemalloc::pages {
namespace {

// CPU time of a process that hardly works, for which no refault is cheap.
constexpr uint64_t kLittleNs = kMillisecondNs;

void windows(PurgeDelay& delay, int count, size_t purged, size_t refaulted,
             uint64_t cpu_ns = kLittleNs) {
  for (int i = 0; i < count; i++) delay.window_ended(purged, refaulted, cpu_ns);
}

TEST(PurgeDelay, DoublesOnRefaultsUpToTheMaximum) {
  PurgeDelay delay;
  uint64_t before = delay.ns();
  EXPECT_EQ(before, 1 * kSecondNs);
  windows(delay, 1, 10 * MiB, 3 * MiB);
  EXPECT_EQ(delay.ns(), 2 * before);
  windows(delay, 10, 10 * MiB, 10 * MiB);
  EXPECT_EQ(delay.ns(), 30 * kSecondNs);
}

TEST(PurgeDelay, HalvesAfterFiveQuietWindowsAndStopsAtTheShortest) {
  PurgeDelay delay;
  windows(delay, 4, 10 * MiB, 0);
  EXPECT_EQ(delay.ns(), 1 * kSecondNs);
  windows(delay, 1, 10 * MiB, 0);
  EXPECT_EQ(delay.ns(), 500 * kMillisecondNs);
  windows(delay, 50, 10 * MiB, 0);
  EXPECT_EQ(delay.ns(), 250 * kMillisecondNs);
}

TEST(PurgeDelay, StaysBetweenTheTwoMarks) {
  PurgeDelay delay;
  windows(delay, 100, 100 * MiB, 10 * MiB);
  EXPECT_EQ(delay.ns(), 1 * kSecondNs);
  // One such window restarts the count of five.
  windows(delay, 4, 100 * MiB, 0);
  windows(delay, 1, 100 * MiB, 30 * MiB);
  windows(delay, 2, 100 * MiB, 0);
  EXPECT_EQ(delay.ns(), 1 * kSecondNs);
}

TEST(PurgeDelay, TinySamplesOnlyEndALongDelay) {
  PurgeDelay delay;
  windows(delay, 100, 100 * KiB, 100 * KiB);
  EXPECT_EQ(delay.ns(), 1 * kSecondNs) << "neither up nor down";
  windows(delay, 3, 10 * MiB, 10 * MiB);
  EXPECT_EQ(delay.ns(), 8 * kSecondNs);
  windows(delay, 15, 0, 0);
  EXPECT_EQ(delay.ns(), 1 * kSecondNs);
  windows(delay, 15, 0, 0);
  EXPECT_EQ(delay.ns(), 1 * kSecondNs);
}

// A refault of a page costs 1 us: 2,500 of them are a 400th of a second.
TEST(PurgeDelay, StaysIfRefaultsAreCheap) {
  constexpr size_t kCheap = 2500 * kPageBytes;
  PurgeDelay delay;
  windows(delay, 100, kCheap, kCheap, kSecondNs);
  EXPECT_EQ(delay.ns(), 1 * kSecondNs);
  windows(delay, 1, 2 * kCheap, 2 * kCheap, kSecondNs);
  EXPECT_EQ(delay.ns(), 2 * kSecondNs);
  windows(delay, 100, kCheap, kCheap, kSecondNs);
  EXPECT_EQ(delay.ns(), 2 * kSecondNs) << "no reason to go back either";
}

// Bursts of 100 MiB with pauses between them: memory that has been free for a delay is purged. Uses
// a simulated clock.
struct Bursts {
  uint64_t pause_ns;
  size_t refaults_after = 0;  // in the last hundred bursts

  void run(PurgeDelay& delay) {
    uint64_t window_end = delay.ns(), now = 0;
    size_t purged = 0, refaulted = 0;
    for (int burst = 0; burst < 500; burst++) {
      if (pause_ns > delay.ns()) {
        purged += 100 * MiB;
        if (pause_ns <= 3 * delay.ns()) refaulted += 100 * MiB;
        if (burst >= 400) refaults_after++;
      }
      for (now += pause_ns; now >= window_end; window_end += delay.ns(), purged = refaulted = 0)
        delay.window_ended(purged, refaulted, kLittleNs);
    }
  }
};

TEST(PurgeDelay, AShortPauseStopsBeingPurgedAndALongOneIsPurgedSoon) {
  for (uint64_t milliseconds : {1200, 2000, 2900}) {
    PurgeDelay delay;
    Bursts bursts{milliseconds * kMillisecondNs};
    bursts.run(delay);
    EXPECT_LE(bursts.refaults_after, 35u) << milliseconds << " ms, at " << delay.ns();
  }
  PurgeDelay delay;
  Bursts bursts{10 * kSecondNs};
  bursts.run(delay);
  EXPECT_EQ(bursts.refaults_after, 100u);
  EXPECT_EQ(delay.ns(), PurgeDelay::kMinNs);
}

}  // namespace
}  // namespace seemalloc::pages

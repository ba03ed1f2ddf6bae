#include "core/heap/thread/sample_growth.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace seemalloc::heap {
namespace {

constexpr size_t kStep = GrowthWatch::kStepBytes;

TEST(GrowthWatch, SeesEachStep) {
  GrowthWatch watch;
  EXPECT_EQ(watch.times(), 1u);
  EXPECT_FALSE(watch.check(kStep - 1));
  EXPECT_TRUE(watch.check(kStep));
  EXPECT_FALSE(watch.check(kStep));
  EXPECT_FALSE(watch.check(2 * kStep - 1));
  EXPECT_TRUE(watch.check(10 * kStep));
  EXPECT_EQ(watch.times(), 3u);
}

TEST(GrowthWatch, RegrowthIsNotGrowthUntilTicks) {
  GrowthWatch watch;
  EXPECT_TRUE(watch.check(100 * kStep));
  EXPECT_FALSE(watch.check(10 * kStep));
  EXPECT_FALSE(watch.check(100 * kStep));
  watch.tick(20 * kStep);  // 60
  EXPECT_FALSE(watch.check(60 * kStep));
  EXPECT_TRUE(watch.check(62 * kStep));
  EXPECT_TRUE(watch.check(640 * kStep));
  EXPECT_FALSE(watch.check(649 * kStep)) << "of a larger heap a 64th";
  EXPECT_TRUE(watch.check(650 * kStep));
  for (int i = 0; i < 50; i++) watch.tick(0);
  EXPECT_TRUE(watch.check(kStep + 1));
}

TEST(GrowthWatch, ATickOfALargerHeapChangesNothing) {
  GrowthWatch watch;
  EXPECT_TRUE(watch.check(4 * kStep));
  watch.tick(8 * kStep);
  EXPECT_TRUE(watch.check(8 * kStep)) << "no thread has checked at that size";
}

// Exactly one of the threads sees each step of the sum.
TEST(GrowthWatch, CountsAStepOnce) {
  constexpr size_t kSteps = 1000;
  GrowthWatch watch;
  std::atomic<size_t> seen{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; t++) {
    threads.emplace_back([&] {
      for (size_t step = 1; step <= kSteps; step++) {
        if (watch.check(step * kStep)) seen++;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_LE(seen, kSteps);
  EXPECT_EQ(watch.times() - 1, seen);
  EXPECT_FALSE(watch.check(kSteps * kStep));
  EXPECT_GT(seen, kSteps / 16);
}

}  // namespace
}  // namespace seemalloc::heap

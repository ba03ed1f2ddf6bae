#include "core/pages/policy/huge_page_pacing.h"

#include <gtest/gtest.h>

namespace seemalloc::pages {
namespace {

constexpr uint64_t kFast_ns = 200'000;
constexpr uint64_t kSlow_ns = 4'300'000;

// Number of regions without a huge page before the next one.
int skipped(HugePagePacing& pacing, int most = 1'000'000) {
  int count = 0;
  while (count < most && !pacing.due()) count++;
  return count;
}

TEST(HugePagePacing, GoesOnWhileTheKernelIsQuick) {
  HugePagePacing pacing;
  for (int i = 0; i < 1000; i++) {
    ASSERT_TRUE(pacing.due());
    pacing.delivered(kFast_ns);
  }
}

TEST(HugePagePacing, PaysASlowOneBackFirst) {
  HugePagePacing pacing;
  ASSERT_TRUE(pacing.due());
  pacing.delivered(kSlow_ns);
  // 3.7 ms too slow, 12 µs credited per region.
  EXPECT_EQ(skipped(pacing), 309);
  pacing.delivered(kFast_ns);
  EXPECT_TRUE(pacing.due());
}

TEST(HugePagePacing, LosesOneSlowPageAndTwoPercentAtMost) {
  HugePagePacing pacing;
  int64_t lost_ns = 0;
  const int kRegions = 10'000;
  for (int i = 0; i < kRegions; i++) {
    if (!pacing.due()) continue;
    pacing.delivered(kSlow_ns);
    lost_ns += int64_t{kSlow_ns} - HugePagePacing::kSmallPages_ns;
  }
  EXPECT_LE(lost_ns, int64_t{kSlow_ns} + kRegions * HugePagePacing::kSmallPages_ns / 50);
}

TEST(HugePagePacing, WhatFastOnesEarnedPaysForASlowOneNow) {
  HugePagePacing pacing;
  for (int i = 0; i < 10; i++) pacing.delivered(kFast_ns);
  pacing.delivered(kSlow_ns);
  EXPECT_TRUE(pacing.due());
  pacing.delivered(kSlow_ns);
  EXPECT_FALSE(pacing.due());
}

TEST(HugePagePacing, LongLuckDoesNotPayForALongStall) {
  HugePagePacing pacing;
  for (int i = 0; i < 1'000'000; i++) pacing.delivered(kFast_ns);
  pacing.delivered(kSlow_ns);
  pacing.delivered(kSlow_ns);
  EXPECT_FALSE(pacing.due());
}

TEST(HugePagePacing, NeverStopsForGood) {
  HugePagePacing pacing;
  pacing.delivered(~uint64_t{0});
  EXPECT_LE(skipped(pacing), HugePagePacing::kMostOwed_ns / HugePagePacing::kPayback_ns);
}

TEST(HugePagePacing, AsksRarelyWhereThereAreNone) {
  HugePagePacing pacing;
  pacing.refused(0);
  EXPECT_EQ(skipped(pacing), 4);
  pacing.refused(0);
  EXPECT_EQ(skipped(pacing), 8);
  for (int i = 0; i < 20; i++) pacing.refused(0);
  EXPECT_EQ(skipped(pacing), 1024);
  pacing.delivered(kFast_ns);
  pacing.refused(0);
  EXPECT_EQ(skipped(pacing), 4);
}

}  // namespace
}  // namespace seemalloc::pages

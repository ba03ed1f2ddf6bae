#include "core/pages/policy/huge_page_pacing.h"

#include <gtest/gtest.h>

namespace seemalloc::pages {
namespace {

constexpr uint64_t kFastNs = 200'000;
constexpr uint64_t kSlowNs = 4'300'000;

// Number of regions without a huge page before the next one.
int skipped(HugePagePacing& pacing, int most = 1'000'000) {
  int count = 0;
  while (count < most && !pacing.due()) count++;
  return count;
}

TEST(HugePagePacing, ContinuesWhileTheKernelIsFast) {
  HugePagePacing pacing;
  for (int i = 0; i < 1000; i++) {
    ASSERT_TRUE(pacing.due());
    pacing.delivered(kFastNs);
  }
}

TEST(HugePagePacing, PaysASlowOneBackFirst) {
  HugePagePacing pacing;
  ASSERT_TRUE(pacing.due());
  pacing.delivered(kSlowNs);
  // 3.7 ms too slow, 12 µs credited per region.
  EXPECT_EQ(skipped(pacing), 309);
  pacing.delivered(kFastNs);
  EXPECT_TRUE(pacing.due());
}

TEST(HugePagePacing, LosesOneSlowPageAndTwoPercentAtMost) {
  HugePagePacing pacing;
  int64_t lost_ns = 0;
  const int kRegions = 10'000;
  for (int i = 0; i < kRegions; i++) {
    if (!pacing.due()) continue;
    pacing.delivered(kSlowNs);
    lost_ns += int64_t{kSlowNs} - HugePagePacing::kSmallPagesNs;
  }
  EXPECT_LE(lost_ns, int64_t{kSlowNs} + kRegions * HugePagePacing::kSmallPagesNs / 50);
}

TEST(HugePagePacing, CreditOfFastPagesPaysForASlowOne) {
  HugePagePacing pacing;
  for (int i = 0; i < 10; i++) pacing.delivered(kFastNs);
  pacing.delivered(kSlowNs);
  EXPECT_TRUE(pacing.due());
  pacing.delivered(kSlowNs);
  EXPECT_FALSE(pacing.due());
}

TEST(HugePagePacing, LongLuckDoesNotPayForALongStall) {
  HugePagePacing pacing;
  for (int i = 0; i < 1'000'000; i++) pacing.delivered(kFastNs);
  pacing.delivered(kSlowNs);
  pacing.delivered(kSlowNs);
  EXPECT_FALSE(pacing.due());
}

TEST(HugePagePacing, NeverStopsForGood) {
  HugePagePacing pacing;
  pacing.delivered(~uint64_t{0});
  EXPECT_LE(skipped(pacing), HugePagePacing::kMaxDebtNs / HugePagePacing::kCreditPerRegionNs);
}

TEST(HugePagePacing, AsksRarelyWhereThereAreNone) {
  HugePagePacing pacing;
  pacing.refused(0);
  EXPECT_EQ(skipped(pacing), 4);
  pacing.refused(0);
  EXPECT_EQ(skipped(pacing), 8);
  for (int i = 0; i < 20; i++) pacing.refused(0);
  EXPECT_EQ(skipped(pacing), 1024);
  pacing.delivered(kFastNs);
  pacing.refused(0);
  EXPECT_EQ(skipped(pacing), 4);
}

}  // namespace
}  // namespace seemalloc::pages

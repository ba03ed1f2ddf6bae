#include "core/api/sampling/sample_backoff.h"

#include <gtest/gtest.h>

namespace seemalloc {
namespace {

// All live blocks may have been allocated at the backed-off interval: the error of the total is the
// square root of bytes times interval.
TEST(MostStretch, BoundsTheErrorOfTheTotal) {
  constexpr double kInterval = 512 * KiB, kMax = 14.15 * MiB;
  for (double bytes = 4096; bytes < 1e13; bytes *= 1.1) {
    unsigned backoff_log2 = max_backoff_log2(static_cast<size_t>(bytes), 0);
    if (backoff_log2 != 0)
      EXPECT_LE(bytes * kInterval * static_cast<double>(uint64_t{1} << backoff_log2), kMax * kMax)
          << bytes;
    if (bytes > 200.0 * MiB) EXPECT_EQ(backoff_log2, 0u) << bytes;
  }
  EXPECT_EQ(max_backoff_log2(8 * MiB, 0), 5u);
}

// A heap that has shrunk may grow to its former size unnoticed.
TEST(MostStretch, BoundsTheErrorOfAHeapThatGrowsAgain) {
  constexpr double kInterval = 512 * KiB, kMax = 14.15 * MiB;
  for (size_t most = 64 * KiB; most < 300 * MiB; most += most / 8) {
    for (size_t bytes : {size_t{0}, most / 64, most / 2, most}) {
      unsigned backoff_log2 = max_backoff_log2(bytes, most);
      if (backoff_log2 != 0)
        EXPECT_LE(static_cast<double>(most) * kInterval *
                      static_cast<double>(uint64_t{1} << backoff_log2),
                  2 * kMax * kMax)
            << most;
      EXPECT_LE(backoff_log2, max_backoff_log2(bytes, 0));
    }
  }
}

TEST(MostStretch, IsNoShiftBeyondAWord) {
  EXPECT_LT(max_backoff_log2(0, 0), 32u);
  EXPECT_EQ(max_backoff_log2(SIZE_MAX, SIZE_MAX), 0u);
}

TEST(NextStretch, IsClampedToTheMaximum) {
  profile::SampleRateLimiter::reset_for_test();
  profile::SampleRateLimiter pace;
  pace.check(1, {1, 1});
  for (unsigned i = 0; i < 1000; i++) pace.count_sample({UINT32_MAX, UINT32_MAX});
  pace.check(2, {1, 1});
  EXPECT_GT(pace.backoff_log2(), 4u);
  profile::SampleRateLimiter::Limit limit;
  ASSERT_TRUE(has_sample_rate_limit(512 * KiB, &limit));
  EXPECT_EQ(next_backoff_log2(pace, limit, true, 4), 4u);
  EXPECT_EQ(pace.backoff_log2(), 4u);
}

}  // namespace
}  // namespace seemalloc

#include "core/api/sampling/sample_stretch.h"

#include <gtest/gtest.h>

namespace seemalloc {
namespace {

// All live blocks may have been allocated at the backed-off interval: the error of the total is the
// square root of bytes times interval.
TEST(MostStretch, BoundsTheErrorOfTheTotal) {
  constexpr double kInterval = 512 * KiB, kMost = 14.15 * MiB;
  for (double bytes = 4096; bytes < 1e13; bytes *= 1.1) {
    unsigned stretch = most_stretch(static_cast<size_t>(bytes), 0);
    if (stretch != 0)
      EXPECT_LE(bytes * kInterval * static_cast<double>(uint64_t{1} << stretch), kMost * kMost)
          << bytes;
    if (bytes > 200.0 * MiB) EXPECT_EQ(stretch, 0u) << bytes;
  }
  EXPECT_EQ(most_stretch(8 * MiB, 0), 5u);
}

// A heap that has shrunk may grow to its former size unnoticed.
TEST(MostStretch, BoundsTheErrorOfAHeapThatGrowsAgain) {
  constexpr double kInterval = 512 * KiB, kMost = 14.15 * MiB;
  for (size_t most = 64 * KiB; most < 300 * MiB; most += most / 8) {
    for (size_t bytes : {size_t{0}, most / 64, most / 2, most}) {
      unsigned stretch = most_stretch(bytes, most);
      if (stretch != 0)
        EXPECT_LE(
            static_cast<double>(most) * kInterval * static_cast<double>(uint64_t{1} << stretch),
            2 * kMost * kMost)
            << most;
      EXPECT_LE(stretch, most_stretch(bytes, 0));
    }
  }
}

TEST(MostStretch, IsNoShiftBeyondAWord) {
  EXPECT_LT(most_stretch(0, 0), 32u);
  EXPECT_EQ(most_stretch(SIZE_MAX, SIZE_MAX), 0u);
}

TEST(NextStretch, ForgetsWhatTheCallerDoesNotAllow) {
  profile::SamplePace::forget_all_for_test();
  profile::SamplePace pace;
  pace.look(1, {1, 1});
  for (unsigned i = 0; i < 1000; i++) pace.count({UINT32_MAX, UINT32_MAX});
  pace.look(2, {1, 1});
  EXPECT_GT(pace.stretch(), 4u);
  profile::SamplePace::Limit limit;
  ASSERT_TRUE(limits_samples(512 * KiB, &limit));
  EXPECT_EQ(next_stretch(pace, limit, true, 4), 4u);
  EXPECT_EQ(pace.stretch(), 4u);
}

}  // namespace
}  // namespace seemalloc

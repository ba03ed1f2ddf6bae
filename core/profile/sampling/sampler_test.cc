#include "core/profile/sampling/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "core/base/seed_for_test.h"

namespace seemalloc::profile {
namespace {

// A new one in each call. A threshold, of six standard errors, is exceeded by chance in one run of
// 10^6 or more.
uint64_t fresh_seed() {
  static std::mt19937_64 random(seed_for_test());
  return random() | 1;
}

TEST(Random, SeedsDiffer) {
  Random a, b;
  EXPECT_NE(a.next(), b.next());
  EXPECT_NE(a.state, 0u);
  Random c{a.state};
  for (int i = 0; i < 1000; i++) ASSERT_EQ(a.next(), c.next());
}

// So that SEEMALLOC_SEED repeats the samples of a test.
TEST(Random, FollowsTheSeedOfTheTest) {
  uint64_t before = os::test_random_state;
  auto first = [](uint64_t seed) {
    os::test_random_state = seed;
    return Random().next();
  };
  EXPECT_EQ(first(77), first(77));
  EXPECT_NE(first(77), first(79));
  EXPECT_NE(first(0), first(0)) << "without one they are the kernel's";
  os::test_random_state = before;
}

TEST(Random, BitsAreBalanced) {
  Random random{fresh_seed()};
  SCOPED_TRACE(testing::Message() << "seed " << random.state);
  constexpr int kDraws = 100000;
  int ones[64] = {};
  for (int i = 0; i < kDraws; i++) {
    uint64_t bits = random.next();
    for (int b = 0; b < 64; b++) ones[b] += (bits >> b) & 1;
  }
  for (int count : ones) EXPECT_NEAR(count, kDraws / 2, 6 * std::sqrt(kDraws) / 2);
}

TEST(DrawDistance, Corners) {
  Random random;
  for (int i = 0; i < 1000; i++) {
    ASSERT_EQ(draw_distance_bytes(random, 1), 1);
    ASSERT_EQ(draw_distance_bytes(random, 0), INT64_MAX);
    ASSERT_GE(draw_distance_bytes(random, 2), 1);
    ASSERT_GT(draw_distance_bytes(random, uint64_t{1} << 40), 0);
    ASSERT_GT(draw_distance_bytes(random, UINT64_MAX), 0);
  }
}

TEST(DrawDistance, IsTheLogarithmOfTheDraw) {
  Random random{fresh_seed()};
  SCOPED_TRACE(testing::Message() << "seed " << random.state);
  for (int i = 0; i < 200000; i++) {
    Random copy = random;
    double u = static_cast<double>((copy.next() >> 11) + 1) * 0x1p-53;
    double expected = -std::log(u) * 0x1p40;
    ASSERT_NEAR(static_cast<double>(draw_distance_bytes(random, uint64_t{1} << 40)), expected,
                1 + expected * 1e-14);
  }
}

TEST(DrawDistance, IsExponential) {
  Random random{fresh_seed()};
  SCOPED_TRACE(testing::Message() << "seed " << random.state);
  constexpr size_t kDraws = 200000;
  for (double mean : {4096.0, 524288.0, 0x1p40}) {
    std::vector<double> draws(kDraws);
    double sum = 0, squares = 0;
    for (double& draw : draws) {
      draw = static_cast<double>(draw_distance_bytes(random, static_cast<uint64_t>(mean)));
      sum += draw / mean;
      squares += draw / mean * (draw / mean);
    }
    // Moments of the unit exponential: E x = 1 (variance 1), E x² = 2 (variance 20). ceil adds half
    // a byte.
    double root = std::sqrt(static_cast<double>(kDraws));
    EXPECT_NEAR(sum / kDraws, 1 + 0.5 / mean, 6 / root);
    EXPECT_NEAR(squares / kDraws, 2 + 1 / mean, 6 * std::sqrt(20.0) / root);
    // Kolmogorov-Smirnov test: D√n > 2.8 has probability 3e-7.
    std::sort(draws.begin(), draws.end());
    double distance = 0;
    for (size_t i = 0; i < kDraws; i++) {
      double cumulative = -std::expm1(-draws[i] / mean);
      distance = std::max(distance, std::abs(cumulative - static_cast<double>(i + 1) / kDraws));
    }
    EXPECT_LT((distance - 1 / mean) * root, 2.8) << mean;
  }
}

TEST(DrawDistance, IsGeometricForSmallIntervals) {
  Random random{fresh_seed()};
  SCOPED_TRACE(testing::Message() << "seed " << random.state);
  constexpr int kDraws = 200000;
  for (uint64_t interval : {2, 3, 10, 64}) {
    for (int64_t bytes : {1, 2, 16}) {
      int met = 0;
      for (int i = 0; i < kDraws; i++) met += draw_distance_bytes(random, interval) <= bytes;
      double p = 1 / sample_weight(static_cast<uint64_t>(bytes), interval);
      EXPECT_NEAR(met, kDraws * p, 6 * std::sqrt(kDraws * p * (1 - p)) + 1e-6)
          << interval << " " << bytes;
    }
  }
}

TEST(SampleWeight, AgreesWithLibm) {
  double worst = 0;
  std::mt19937_64 random(seed_for_test());
  for (int i = 0; i <= 40; i++) {
    for (int j = 1; j <= 40; j++) {
      for (int k = 0; k < 4; k++) {
        uint64_t bytes = uint64_t{1} << i, interval = uint64_t{1} << j;
        if (k != 0) bytes += random() % bytes, interval += random() % interval;
        double expected =
            -1 / std::expm1(-static_cast<double>(bytes) / static_cast<double>(interval));
        double error = std::abs(sample_weight(bytes, interval) / expected - 1);
        worst = std::max(worst, error);
        ASSERT_LT(error, 1e-9) << bytes << " " << interval;
      }
    }
  }
  RecordProperty("worst_relative_error", std::to_string(worst));
  EXPECT_LT(worst, 1e-14);
}

TEST(SampleWeight, Corners) {
  EXPECT_EQ(sample_weight(1, 1), 1.0);
  EXPECT_EQ(sample_weight(123456, 1), 1.0);
  EXPECT_EQ(sample_weight(123456, 0), 1.0);
  EXPECT_EQ(sample_weight(0, 100), sample_weight(1, 100));
  EXPECT_EQ(sample_weight(uint64_t{1} << 40, 2), 1.0);
}

// Blocks of mixed sizes are allocated. The weights of the blocks that contain a sample point must
// add up to the number and the bytes of all.
TEST(Sampling, EstimatesAreUnbiased) {
  Random random{fresh_seed()};
  SCOPED_TRACE(testing::Message() << "seed " << random.state);
  constexpr uint64_t kInterval = 4096;
  double objects = 0, bytes = 0, objects_variance = 0, bytes_variance = 0, true_objects = 0,
         true_bytes = 0;
  int64_t distance = draw_distance_bytes(random, kInterval);
  for (int i = 0; i < 2000000; i++) {
    uint64_t size = uint64_t{16} << (random.next() >> 60);  // 16 B … 512 KiB
    true_objects += 1;
    true_bytes += static_cast<double>(size);
    distance -= static_cast<int64_t>(size);
    if (distance > 0) continue;
    // memoryless: further points in this block do not matter.
    distance = draw_distance_bytes(random, kInterval);
    double weight = sample_weight(size, kInterval);
    objects += weight;
    bytes += weight * static_cast<double>(size);
    objects_variance += weight * (weight - 1);
    bytes_variance += weight * (weight - 1) * static_cast<double>(size) * static_cast<double>(size);
  }
  EXPECT_NEAR(objects, true_objects, 6 * std::sqrt(objects_variance));
  EXPECT_NEAR(bytes, true_bytes, 6 * std::sqrt(bytes_variance));
}

}  // namespace
}  // namespace seemalloc::profile

#include "core/profile/sampling/lifetimes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "core/base/seed_for_test.h"

namespace seemalloc::profile {

// Sets a count that a test cannot reach by calls.
struct FullLifetimes {
  static void set_count(Lifetimes& lifetimes, unsigned age_class, uint64_t count) {
    lifetimes.counts_[age_class].store(static_cast<decltype(lifetimes.counts_[0].load())>(count));
  }
};

namespace {

TEST(Lifetimes, ClassesArePowersOfTen) {
  uint64_t end = 1000;
  for (unsigned c = 0; c + 1 < kAgeClasses; c++, end *= 10) {
    EXPECT_EQ(kAgeClassEndsNs[c], end);
    EXPECT_EQ(age_class_of(end - 1), c);
    EXPECT_EQ(age_class_of(end), c + 1);
  }
  EXPECT_EQ(age_class_of(0), 0u);
  EXPECT_EQ(age_class_of(UINT64_MAX), kAgeClasses - 1);
  EXPECT_EQ(std::string(age_class_name(age_class_of(kShortLifeNs - 1))), "1ms to 10ms");
  EXPECT_EQ(age_class_of(kShortLifeNs), kShortClasses);
}

struct Model {
  std::map<unsigned, uint64_t> counts;
  std::vector<uint64_t> ages;

  void add(uint64_t ns) {
    ages.push_back(ns);
    unsigned c = 0;
    for (uint64_t end = 1000; c + 1 < kAgeClasses && ns >= end; end *= 10) c++;
    counts[c]++;
  }
  void expect(const Lifetimes& lifetimes) {
    for (unsigned c = 0; c < kAgeClasses; c++)
      EXPECT_EQ(lifetimes.count(c), counts[c]) << age_class_name(c);
    EXPECT_EQ(lifetimes.count(), ages.size());
    long double sum = 0, squares = 0;
    for (uint64_t age : ages) sum += age;
    long double mean = sum / ages.size();
    for (uint64_t age : ages) squares += (age - mean) * (age - mean);
    long double deviation = std::sqrt(squares / ages.size());
    double count = static_cast<double>(ages.size()), got_mean = lifetimes.sum_ns() / count;
    double got_deviation =
        std::sqrt(std::max(0.0, lifetimes.sum_of_squares() / count - got_mean * got_mean));
    EXPECT_NEAR(got_mean, static_cast<double>(mean), 1e-9 * static_cast<double>(mean));
    // The deviation may be 0, so its bound is not only relative.
    EXPECT_NEAR(got_deviation, static_cast<double>(deviation),
                1e-3 * static_cast<double>(deviation) + 1e-6 * static_cast<double>(mean));
    EXPECT_EQ(lifetimes.min_ns(), *std::min_element(ages.begin(), ages.end()));
    EXPECT_EQ(lifetimes.max_ns(), *std::max_element(ages.begin(), ages.end()));
  }
};

TEST(Lifetimes, AgreeWithAModel) {
  uint64_t seed = seed_for_test();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  for (int round = 0; round < 40; round++) {
    Lifetimes alone, shared;
    Model model;
    for (uint64_t n = 1 + random() % 2000; n != 0; n--) {
      uint64_t ns = random() % 8 == 0 ? 0 : random() >> (10 + random() % 54);
      model.add(ns);
      alone.add_single_writer(ns);
      shared.add(ns);
    }
    model.expect(alone);
    model.expect(shared);
  }
}

TEST(Lifetimes, ThreadsLoseNothing) {
  constexpr int kThreads = 4, kSteps = 20000;
  Lifetimes lifetimes;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; t++) {
    threads.emplace_back([&, t] {
      for (uint64_t i = 0; i < kSteps; i++) lifetimes.add(1000 + i * kThreads + t);
    });
  }
  for (std::thread& thread : threads) thread.join();
  Model model;
  for (uint64_t i = 0; i < kSteps * kThreads; i++) model.add(1000 + i);
  model.expect(lifetimes);
}

// If everything is recorded, a busy program makes this many frees in minutes.
TEST(Lifetimes, CountMoreThan32Bits) {
  for (uint64_t ns : {uint64_t{0}, uint64_t{500}, uint64_t{5'000'000'000}}) {
    for (bool alone : {false, true}) {
      Lifetimes lifetimes;
      FullLifetimes::set_count(lifetimes, age_class_of(ns), UINT32_MAX);
      alone ? lifetimes.add_single_writer(ns) : lifetimes.add(ns);
      EXPECT_EQ(lifetimes.count(), uint64_t{1} << 32) << ns << (alone ? " alone" : "");
    }
  }
}

// A reader that loads a count finds the counted lifetimes in the other figures.
TEST(Lifetimes, CountIsPublishedLast) {
  constexpr size_t kRecords = 30000;
  constexpr uint64_t kAge = 3'000'000;
  for (bool alone : {false, true}) {
    auto records = std::make_unique<Lifetimes[]>(kRecords);
    std::atomic<size_t> reading{0};
    std::thread writer([&] {
      for (size_t i = 0; i < kRecords; i++) {
        while (reading.load(std::memory_order_acquire) < i) {
        }
        alone ? records[i].add_single_writer(kAge) : records[i].add(kAge);
      }
    });
    size_t wrong = 0;
    for (size_t i = 0; i < kRecords; i++) {
      reading.store(i, std::memory_order_release);
      while (records[i].count(age_class_of(kAge)) == 0) {
      }
      wrong += records[i].min_ns() != kAge || records[i].max_ns() != kAge ||
               records[i].sum_ns() != static_cast<double>(kAge);
    }
    writer.join();
    EXPECT_EQ(wrong, 0u) << (alone ? "alone" : "shared");
  }
}

}  // namespace
}  // namespace seemalloc::profile

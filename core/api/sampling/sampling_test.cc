// Is every byte sampled with the right probability? Observed over expected sample counts within 4
// standard errors, for every way of allocating and the patterns that break countdown samplers.
#include <gtest/gtest.h>
#include <seemalloc/seemalloc.h>

#include <cmath>
#include <functional>
#include <random>
#include <thread>
#include <vector>

#include "core/api/malloc/test_api.h"
#include "core/api/sampling/sampling.h"
#include "core/base/repetitions_for_test.h"
#include "core/base/seed_for_test.h"
#include "core/base/units.h"
#include "core/heap/maintenance/purge_all.h"
#include "core/heap/reports/statistics.h"
#include "core/heap/slow_paths/large.h"
#include "core/heap/thread/sample_distance.h"
#include "core/heap/thread/sample_growth.h"
#include "core/heap/thread/size_class.h"
#include "core/pages/span/page_map.h"

namespace seemalloc {
namespace {

size_t allocated_bytes(size_t bytes) {
  return bytes <= heap::kMaxSmallBytes ? heap::kClasses[heap::class_of(bytes)].bytes
                                       : heap::large_bytes(bytes);
}

// The difference between the samples of `n` allocations of `bytes` and the binomial's n·p, in
// standard errors. A new thread makes the allocations: an older one may use many lists before it
// notices the new interval.
double deviation(size_t bytes, size_t interval, size_t n, const std::function<void()>& run) {
  EXPECT_EQ(seemalloc_option_set("sample_limit", "0"), 0);
  heap::purge_all();  // a large span cached from before may be an eighth larger than necessary
  EXPECT_EQ(seemalloc_profile_start(interval), 0);
  uint64_t before = sampling_report().samples;
  std::thread(run).join();
  double observed = static_cast<double>(sampling_report().samples - before);
  double p =
      1 - std::exp(-static_cast<double>(allocated_bytes(bytes)) / static_cast<double>(interval));
  double expected = static_cast<double>(n) * p;
  EXPECT_EQ(sampling_report().dropped, 0u);
  EXPECT_EQ(seemalloc_profile_stop(), 0);
  EXPECT_EQ(seemalloc_option_set("sample_limit", "10000"), 0);
  return (observed - expected) / std::sqrt(expected * (1 - p));
}

// Some of the hundreds of comparisons of a test day fail by chance; a bias fails again, in the same
// direction.
void expect_samples(size_t bytes, size_t interval, size_t n, const std::function<void()>& run) {
  double first = deviation(bytes, interval, n, run);
  if (std::abs(first) <= 4) return;
  double second = deviation(bytes, interval, n, run);
  EXPECT_FALSE(std::abs(second) > 3 && std::signbit(first) == std::signbit(second))
      << bytes << " bytes: " << first << " and again " << second
      << " standard errors from the expected number of samples";
}

struct Case {
  size_t bytes, interval, n;
};
// About 2000 expected samples each, without allocating gigabytes at once.
const Case kCases[] = {
    {16, 4 * KiB, repetitions(500000u)},       {64, 16 * KiB, repetitions(500000u)},
    {1 * KiB, 64 * KiB, repetitions(130000u)}, {8 * KiB, 128 * KiB, repetitions(32000u)},
    {64 * KiB, 256 * KiB, repetitions(9000u)}, {1 * MiB, 2 * MiB, repetitions(5000u)}};

class Sampling : public testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(Sizes, Sampling, testing::ValuesIn(kCases),
                         [](const auto& info) { return std::to_string(info.param.bytes); });

TEST_P(Sampling, GrowOnly) {
  Case c = GetParam();
  std::vector<void*> blocks(c.n);
  expect_samples(c.bytes, c.interval, c.n, [&] {
    for (void*& p : blocks) p = sm_malloc(c.bytes);
    for (void* p : blocks) sm_free(p);
  });
}

TEST_P(Sampling, PingPong) {
  Case c = GetParam();
  expect_samples(c.bytes, c.interval, c.n, [&] {
    for (size_t i = 0; i < c.n; i++) sm_free(sm_malloc(c.bytes));
  });
}

TEST_P(Sampling, RandomWalk) {
  Case c = GetParam();
  unsigned seed = seed_for_test();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  std::vector<void*> blocks;
  expect_samples(c.bytes, c.interval, c.n, [&] {
    for (size_t made = 0; made < c.n;) {
      if (blocks.empty() || random() % 2 == 0) {
        blocks.push_back(sm_malloc(c.bytes));
        made++;
      } else {
        std::swap(blocks[random() % blocks.size()], blocks.back());
        sm_free(blocks.back());
        blocks.pop_back();
      }
    }
  });
  for (void* p : blocks) sm_free(p);
}

TEST_P(Sampling, ThreadsThatEnd) {
  Case c = GetParam();
  constexpr size_t kThreads = 40;
  expect_samples(c.bytes, c.interval, c.n / kThreads * kThreads, [&] {
    for (size_t round = 0; round < kThreads / 4; round++) {
      std::vector<std::thread> threads;
      for (int t = 0; t < 4; t++) {
        threads.emplace_back([&] {
          for (size_t i = 0; i < c.n / kThreads; i++) sm_free(sm_malloc(c.bytes));
        });
      }
      for (std::thread& thread : threads) thread.join();
    }
  });
}

TEST_P(Sampling, OtherWaysToAllocate) {
  Case c = GetParam();
  expect_samples(c.bytes, c.interval, c.n, [&] {
    for (size_t i = 0; i < c.n; i++) sm_free(sm_calloc(1, c.bytes));
  });
  expect_samples(c.bytes, c.interval, c.n, [&] {
    for (size_t i = 0; i < c.n; i++) sm_free(sm_memalign(16, c.bytes));
  });
  expect_samples(c.bytes, c.interval, c.n, [&] {
    for (size_t i = 0; i < c.n; i++) sm_free(sm_realloc(nullptr, c.bytes));
  });
}

// Classes interleaved and the interval changed meanwhile: each sample keeps its own weight, so the
// estimate holds.
TEST(SamplingEstimate, LiveBytesOfAMixedHeap) {
  unsigned seed = seed_for_test();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  SamplingReport before = sampling_report();
  std::vector<void*> blocks;
  double live = 0;
  for (int i = 0; i < 300000; i++) {
    if (i % 60000 == 0) ASSERT_EQ(seemalloc_profile_start(size_t{16 * KiB} << i / 60000), 0);
    size_t bytes = random() % 100 == 0 ? random() % (100 * KiB) : random() % 600;
    void* p = sm_malloc(bytes);
    if (random() % 3 == 0) {
      sm_free(p);
    } else {
      blocks.push_back(p);
      live += static_cast<double>(sm_malloc_usable_size(p));
    }
  }
  SamplingReport after = sampling_report();
  double estimate =
      static_cast<double>(after.estimate_bytes) - static_cast<double>(before.estimate_bytes);
  EXPECT_NEAR(estimate, live, 6 * static_cast<double>(after.estimate_stderr_bytes)) << live;
  EXPECT_LT(static_cast<double>(after.estimate_stderr_bytes), live / 5);
  for (void* p : blocks) sm_free(p);
  EXPECT_EQ(sampling_report().live_samples, before.live_samples) << "every sampled block was freed";
  ASSERT_EQ(seemalloc_profile_stop(), 0);
}

// A thread that allocates far too fast for its samples takes fewer; their total stays correct.
TEST(SamplingEstimate, HoldsWhereSamplesAreLimited) {
  ASSERT_EQ(seemalloc_option_set("sample_limit", "2000"), 0);
  ASSERT_EQ(seemalloc_profile_start(4 * KiB), 0);
  unsigned seed = seed_for_test();
  SCOPED_TRACE(seed);
  std::thread([seed] {
    std::mt19937 random(seed);
    SamplingReport before = sampling_report();
    std::vector<void*> blocks;
    double live = 0, all = 0;
    for (int i = 0; i < 400000; i++) {
      size_t bytes = random() % 200 == 0 ? random() % (100 * KiB) : random() % 2000;
      void* p = sm_malloc(bytes);
      double usable = static_cast<double>(sm_malloc_usable_size(p));
      all += usable;
      if (i % 4 != 0) {
        sm_free(p);
      } else {
        blocks.push_back(p);
        live += usable;
      }
    }
    SamplingReport after = sampling_report();
    double estimate =
        static_cast<double>(after.estimate_bytes) - static_cast<double>(before.estimate_bytes);
    EXPECT_NEAR(estimate, live, 6 * static_cast<double>(after.estimate_stderr_bytes)) << live;
    EXPECT_GT(after.backed_off, before.backed_off);
    EXPECT_LT(static_cast<double>(after.samples - before.samples), all / (4 * KiB) / 2);
    for (void* p : blocks) sm_free(p);
  }).join();
  ASSERT_EQ(seemalloc_profile_stop(), 0);
  ASSERT_EQ(seemalloc_option_set("sample_limit", "10000"), 0);
}

// Distances are redrawn all the time, because another thread has backed off: no sample point is
// lost by that.
TEST_P(Sampling, WhileDistancesAreDrawnAgain) {
  Case c = GetParam();
  std::vector<void*> blocks(64);
  expect_samples(c.bytes, c.interval, c.n / blocks.size() * blocks.size(), [&] {
    for (size_t i = 0; i < c.n / blocks.size(); i++) {
      heap::sample_distances_backed_off = true;
      heap::redraw_backed_off_samples();
      for (void*& p : blocks) p = sm_malloc(c.bytes);
      for (void* p : blocks) sm_free(p);
    }
  });
}

// A thread that allocates the blocks it has just freed, from lists that hold a whole span.
TEST(SamplingEstimate, AThreadNoticesANewIntervalWithinSomeLists) {
  constexpr size_t kMaxLists = 256, kBytes = 16;  // kFreedListsPerRefill of thread_heap.cc
  std::thread([] {
    ASSERT_EQ(seemalloc_profile_start(size_t{1} << 40), 0);
    void* first = sm_malloc(kBytes);
    size_t capacity = pages::page_map.span_of(first)->capacity;
    std::vector<void*> blocks(capacity - 1);
    for (int round = 0; round < 4; round++) {
      for (void*& p : blocks) p = sm_malloc(kBytes);
      for (void* p : blocks) sm_free(p);
    }
    ASSERT_EQ(seemalloc_profile_start(1), 0);
    uint64_t before = sampling_report().samples;
    size_t lists = 0;  // a whole span each, at most
    for (; sampling_report().samples == before && lists < 10 * kMaxLists; lists++) {
      for (size_t i = 0; i < capacity; i++) sm_free(sm_malloc(kBytes));
    }
    EXPECT_LE(lists, kMaxLists + 1);
    uint64_t heard = sampling_report().samples;
    for (int i = 0; i < 1000; i++) sm_free(sm_malloc(kBytes));
    EXPECT_EQ(sampling_report().samples - heard, 1000u);
    sm_free(first);
  }).join();
  ASSERT_EQ(seemalloc_profile_stop(), 0);
}

size_t blocks_of_all_sizes() {
  size_t sum = 0;
  auto add = [](void* to, void*, size_t bytes) { *static_cast<size_t*>(to) += bytes; };
  EXPECT_TRUE(heap::for_each_live_block(add, &sum));
  return sum;
}

// In a thread of its own: lists passed to malloc before the interval changed are used up as they
// were drawn.
TEST(SamplingEstimate, IsExactIfAllIsRecorded) {
  ASSERT_EQ(seemalloc_profile_start(1), 0);
  std::thread([] {
    SamplingReport before = sampling_report();
    size_t live_before = heap::statistics().live_bytes;
    std::vector<void*> blocks(20000);
    size_t live = 0, requested = 0;
    for (size_t i = 0; i < blocks.size(); i++) {
      blocks[i] = sm_malloc(i % 3000);
      live += sm_malloc_usable_size(blocks[i]);
      requested += i % 3000;
    }
    EXPECT_EQ(heap::statistics().live_bytes - live_before, live)
        << "a recorded block counts as what it was allocated as, wherever it lies";
    EXPECT_EQ(blocks_of_all_sizes(), live + live_before) << "block by block";
    SamplingReport after = sampling_report();
    EXPECT_EQ(after.samples - before.samples, blocks.size());
    EXPECT_NEAR(static_cast<double>(after.estimate_bytes - before.estimate_bytes),
                static_cast<double>(live), 2);
    EXPECT_NEAR(static_cast<double>(after.requested_bytes - before.requested_bytes),
                static_cast<double>(requested), 2);
    for (size_t i = 0; i < blocks.size(); i++)
      blocks[i] = sm_realloc(blocks[i], sm_malloc_usable_size(blocks[i]) + i % 50000);
    for (void* p : blocks) sm_free(p);
    EXPECT_EQ(sampling_report().live_samples, before.live_samples);
    EXPECT_NEAR(static_cast<double>(sampling_report().estimate_bytes),
                static_cast<double>(before.estimate_bytes), 2);
    EXPECT_NEAR(static_cast<double>(sampling_report().requested_bytes),
                static_cast<double>(before.requested_bytes), 2);
    EXPECT_EQ(heap::statistics().live_bytes, live_before);
  }).join();
  ASSERT_EQ(seemalloc_profile_stop(), 0);
}

}  // namespace
}  // namespace seemalloc

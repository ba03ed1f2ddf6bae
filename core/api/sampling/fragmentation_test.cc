// Are half-empty spans charged to the blocks that keep them? Compares the estimate from samples
// with a walk over all blocks, for programs with blocks of two kinds; and tests the homes of
// sampled blocks.
#include <gtest/gtest.h>
#include <seemalloc/seemalloc.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <cstdio>
#include <functional>
#include <random>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/api/dumps/profile_kinds.h"
#include "core/api/malloc/test_api.h"
#include "core/api/sampling/sampling.h"
#include "core/api/service/report.h"
#include "core/base/repetitions_for_test.h"
#include "core/base/seed_for_test.h"
#include "core/base/units.h"
#include "core/heap/maintenance/purge_all.h"
#include "core/heap/reports/fragmentation.h"
#include "core/heap/reports/statistics.h"
#include "core/heap/spans/homes.h"
#include "core/heap/thread/size_class.h"
#include "core/os/kernel/fault.h"
#include "core/pages/span/page_map.h"
#include "core/profile/pprof/decoder_for_test.h"
#include "core/profile/sampling/sampler.h"

namespace seemalloc {
namespace {

enum Kind { kShort, kLong, kDense, kKinds };

// The test's blocks, by their purpose.
class Blocks {
 public:
  void* make(Kind kind, size_t bytes) {
    void* p = sm_malloc(bytes);
    kinds_[p] = kind;
    return p;
  }
  void drop(void* p) {
    kinds_.erase(p);
    sm_free(p);
  }
  void drop_all() {
    for (auto& [p, kind] : kinds_) sm_free(p);
    kinds_.clear();
  }
  const Kind* kind_of(const void* p) const {
    auto found = kinds_.find(const_cast<void*>(p));
    return found == kinds_.end() ? nullptr : &found->second;
  }

 private:
  std::unordered_map<void*, Kind> kinds_;
};

// The share of each live block of a span, counted.
double true_share(const void* block) {
  const pages::Span* span = pages::page_map.span_of(block);
  if (span->kind != pages::SpanKind::kSmall && span->kind != pages::SpanKind::kSampled) return 0;
  double used = span->live() - span->hole_blocks();
  return static_cast<double>(span->free_blocks()) * span->block_bytes / used;
}

struct Charged {
  double exact[kKinds] = {};
  double estimate[kKinds] = {};
  double variance[kKinds] = {};
  size_t homeless = 0;
};

struct Measuring {
  const Blocks* blocks;
  size_t interval;
  Charged charged;
};

Charged measure(const Blocks& blocks, size_t interval) {
  Measuring m{&blocks, interval, {}};
  EXPECT_TRUE(heap::for_each_live_block(
      [](void* context, void* block, size_t) {
        auto& measuring = *static_cast<Measuring*>(context);
        const Kind* kind = measuring.blocks->kind_of(block);
        if (kind == nullptr) return;
        double share = true_share(block);
        double w = profile::sample_weight(sm_malloc_usable_size(block), measuring.interval);
        measuring.charged.exact[*kind] += share;
        // Over all blocks, not only the sampled ones: if a few blocks have most of the bytes, all
        // of them may be missed, and so would their variance.
        measuring.charged.variance[*kind] += (w - 1) * share * share;
      },
      &m));
  heap::for_each_sample_charge(
      [](void* context, const heap::SampleCharge& share) {
        auto& measuring = *static_cast<Measuring*>(context);
        const Kind* kind = measuring.blocks->kind_of(share.block);
        if (kind == nullptr) return;
        double w = profile::sample_weight(sm_malloc_usable_size(const_cast<void*>(share.block)),
                                          measuring.interval);
        measuring.charged.homeless += !share.has_home;
        measuring.charged.estimate[*kind] += (w - 1) * share.home_bytes + share.own_bytes;
      },
      &m);
  return m.charged;
}

// A program, run by a thread of its own with the given random numbers; it allocates its blocks with
// `make`.
using Program = std::function<void(std::mt19937& random, Blocks& blocks)>;

// Runs it often: the estimates are within their errors of the counted truth, and not biased.
void expect_right_on_average(size_t interval, const Program& program, double bias) {
  constexpr int kRounds = repetitions(12);
  unsigned seed = seed_for_test();
  SCOPED_TRACE(seed);
  ASSERT_EQ(seemalloc_option_set("sample_limit", "0"), 0);
  ASSERT_EQ(seemalloc_option_set("purge", "never"), 0);  // of the holes below
  double exact[kKinds] = {}, estimate[kKinds] = {}, variance[kKinds] = {};
  for (int round = 0; round < kRounds; round++) {
    heap::purge_all();
    ASSERT_EQ(seemalloc_profile_start(interval), 0);
    Blocks blocks;
    Charged charged;
    std::thread([&] {
      std::mt19937 random(seed + static_cast<unsigned>(round));
      program(random, blocks);
      charged = measure(blocks, interval);
      blocks.drop_all();
    }).join();
    for (int kind = 0; kind < kKinds; kind++) {
      exact[kind] += charged.exact[kind];
      estimate[kind] += charged.estimate[kind];
      variance[kind] += charged.variance[kind];
    }
  }
  for (int kind = 0; kind < kKinds; kind++) {
    double error = std::sqrt(variance[kind]);
    EXPECT_NEAR(estimate[kind], exact[kind], 6 * error + bias * exact[kind] + 4096)
        << "kind " << kind << ", error " << error;
    if (getenv("FRAGMENTATION_FIGURES") == nullptr || exact[kind] == 0) continue;
    printf("%-40s kind %d: exact %.0f, estimate %+.1f%%, error %.1f%%: %+.2f\n",
           testing::UnitTest::GetInstance()->current_test_info()->name(), kind, exact[kind],
           100 * (estimate[kind] / exact[kind] - 1), 100 * error / exact[kind],
           (estimate[kind] - exact[kind]) / error);
  }
  ASSERT_EQ(seemalloc_option_set("purge", "balanced"), 0);
  ASSERT_EQ(seemalloc_profile_stop(), 0);
  ASSERT_EQ(seemalloc_option_set("sample_limit", "10000"), 0);
}

// After a load peak: one block in `keep` stays, and is the only one that keeps its span.
Program spike(size_t bytes, size_t count, unsigned keep) {
  return [=](std::mt19937& random, Blocks& blocks) {
    std::vector<void*> passing;
    for (size_t i = 0; i < count; i++) {
      bool stays = random() % keep == 0;
      void* p = blocks.make(stays ? kLong : kShort, bytes);
      if (!stays) passing.push_back(p);
    }
    for (void* p : passing) blocks.drop(p);
  };
}

class Spike : public testing::TestWithParam<unsigned> {};
INSTANTIATE_TEST_SUITE_P(Keep, Spike, testing::Values(20, 100, 300, 700, 2000));
TEST_P(Spike, IsChargedToSurvivors) {
  expect_right_on_average(2 * KiB, spike(96, 60000, GetParam()), 0.03);
}

TEST(Fragmentation, OfLargerBlocks) {
  expect_right_on_average(32 * KiB, spike(1500, 10000, 8), 0.03);
}
TEST(Fragmentation, OfBlocksThatAreOftenSampled) {
  expect_right_on_average(64 * KiB, spike(20000, 2000, 5), 0.03);
}

// Blocks in full spans are charged nothing, although there are many more of them.
TEST(Fragmentation, DenseBlocksAreNotCharged) {
  expect_right_on_average(
      2 * KiB,
      [](std::mt19937& random, Blocks& blocks) {
        for (int i = 0; i < 30000; i++) blocks.make(kDense, 96);
        spike(96, 30000, 400)(random, blocks);
      },
      0.03);
}

// A class in use: blocks are allocated and freed all the time, a few stay.
TEST(Fragmentation, WhileTheClassIsInUse) {
  expect_right_on_average(
      2 * KiB,
      [](std::mt19937& random, Blocks& blocks) {
        std::vector<void*> alive;
        for (int burst = 0; burst < 20; burst++) {
          for (int i = 0; i < 5000; i++) {
            if (random() % 200 == 0) {
              blocks.make(kLong, 96);
            } else {
              alive.push_back(blocks.make(kShort, 96));
            }
          }
          for (void* p : alive) blocks.drop(p);
          alive.clear();
        }
      },
      0.15);
}

// The same with random lifetimes.
TEST(Fragmentation, WithRandomLifetimes) {
  expect_right_on_average(
      2 * KiB,
      [](std::mt19937& random, Blocks& blocks) {
        std::vector<void*> alive(10000);
        for (int i = 0; i < 80000; i++) {
          if (random() % 100 == 0) {
            blocks.make(kLong, 200);
            continue;
          }
          void*& place = alive[random() % (i < 60000 ? alive.size() : alive.size() / 4)];
          if (place != nullptr) blocks.drop(place);
          place = blocks.make(kShort, 200);
        }
      },
      0.10);
}

// Idle spans lose their holes, and so would holes that are missing because their blocks were
// sampled.
TEST(Fragmentation, HolesAreNotCharged) {
  ASSERT_EQ(seemalloc_option_set("sample_limit", "0"), 0);
  ASSERT_EQ(seemalloc_option_set("purge_delay", "20"), 0);
  ASSERT_EQ(seemalloc_profile_start(2 * KiB), 0);
  std::thread([] {
    std::mt19937 random(seed_for_test());
    Blocks blocks;
    spike(96, 200000, 700)(random, blocks);
    for (int i = 0; i < 30; i++) {  // ticks: more than two delays
      os::advance_test_clock(5 * kMillisecondNs);
      heap::purge_all();
    }
    Charged charged = measure(blocks, 2 * KiB);
    size_t most = 200000 / 700 * 2 * 4096;  // the page of a block, and one for the span's list
    EXPECT_LT(charged.exact[kLong], most * 1.2);
    EXPECT_NEAR(charged.estimate[kLong], charged.exact[kLong],
                6 * std::sqrt(charged.variance[kLong]) + 0.2 * charged.exact[kLong]);
    blocks.drop_all();
  }).join();
  ASSERT_EQ(seemalloc_profile_stop(), 0);
  ASSERT_EQ(seemalloc_option_set("purge_delay", "1000"), 0);
  ASSERT_EQ(seemalloc_option_set("sample_limit", "10000"), 0);
}

// If each block is sampled, nothing is estimated, and no block has a home.
TEST(Fragmentation, IsExactIfAllAllocationsAreSampled) {
  ASSERT_EQ(seemalloc_profile_start(1), 0);
  std::thread([] {
    std::mt19937 random(seed_for_test());
    Blocks blocks;
    spike(300, 20000, 10)(random, blocks);
    Charged charged = measure(blocks, 1);
    EXPECT_NEAR(charged.estimate[kLong], charged.exact[kLong], 1);
    EXPECT_GT(charged.exact[kLong], 300 * 15000);
    EXPECT_EQ(charged.variance[kLong], 0);
    blocks.drop_all();
  }).join();
  ASSERT_EQ(seemalloc_profile_stop(), 0);
}

std::string take_profile() {
  ProfileBytes taken{};
  EXPECT_TRUE(find_profile_kind("fragmentation")->collect(&taken));
  std::string bytes(taken.data, taken.bytes);
  release_profile(taken);
  return bytes;
}

int64_t charged_in(const std::string& bytes) {
  int64_t sum = 0;
  for (const profile::DecodedRow& row : profile::rows_of(bytes)) {
    EXPECT_EQ(row.values.size(), 2u);
    EXPECT_GE(row.values[0], 0);
    sum += row.values[1];
  }
  return sum;
}

TEST(Fragmentation, ProfileAgrees) {
  ASSERT_EQ(seemalloc_profile_start(2 * KiB), 0);
  std::thread([] {
    std::mt19937 random(seed_for_test());
    Blocks blocks;
    spike(96, 60000, 300)(random, blocks);
    Charged charged = measure(blocks, 2 * KiB);
    std::string bytes = take_profile();
    EXPECT_NEAR(static_cast<double>(charged_in(bytes)), charged.estimate[kLong],
                0.02 * charged.estimate[kLong] + 4096);
    std::vector<std::string> comments = profile::decode(bytes).comments;
    ASSERT_EQ(comments.size(), 4u);
    EXPECT_NE(comments[0].find("bytes charged to the stacks"), std::string::npos);
    MemoryReport memory = memory_report(heap::statistics(), true);
    uint64_t resident = 0, uncertain = 0;
    ASSERT_EQ(
        sscanf(
            comments[1].c_str(),
            "resident: %lu bytes between live blocks, as in the statistics; may be off by up to %lu bytes",
            &resident, &uncertain),
        2)
        << comments[1];
    EXPECT_EQ(resident, memory.fragmentation);
    EXPECT_EQ(uncertain, memory.uncertain);
    EXPECT_NE(comments[2].find(", 0 more dropped for lack of memory"), std::string::npos)
        << comments[2];
    blocks.drop_all();
  }).join();
  ASSERT_EQ(seemalloc_profile_stop(), 0);
}

// Samples that all missed the blocks that keep the memory agree with each other: that does not make
// the estimate reliable.
TEST(Fragmentation, ProfileDoesNotClaimToBeRightWhereNoSampleWasDrawn) {
  ASSERT_EQ(seemalloc_profile_start(1024 * GiB), 0);
  std::thread([] {
    std::mt19937 random(seed_for_test());
    Blocks blocks;
    spike(96, 60000, 300)(random, blocks);
    std::string said = profile::decode(take_profile()).comments[0];
    uint64_t exact = 0, charged = 0, error = 0;
    ASSERT_EQ(
        sscanf(
            said.c_str(),
            "fragmentation: %lu bytes free in spans that live blocks keep, by heap metadata; %lu bytes charged to the stacks of these blocks, "
            "standard error %lu",
            &exact, &charged, &error),
        3)
        << said;
    EXPECT_GT(exact, MiB);
    EXPECT_LT(charged, exact / 10);
    EXPECT_EQ(error, exact - charged);
    blocks.drop_all();
  }).join();
  ASSERT_EQ(seemalloc_profile_stop(), 0);
}

TEST(Fragmentation, ProfileMarksIncompleteStacks) {
  ASSERT_EQ(seemalloc_option_set("stack_depth", "4"), 0);
  ASSERT_EQ(seemalloc_profile_start(1), 0);
  uint64_t before = sampling_report().live_samples;
  std::thread([&] {
    std::mt19937 random(seed_for_test());
    Blocks blocks;
    spike(300, 2000, 10)(random, blocks);
    uint64_t recorded = sampling_report().live_samples - before;
    EXPECT_GE(recorded, 120u);
    std::vector<std::string> comments = profile::decode(take_profile()).comments;
    uint64_t truncated = 0;
    ASSERT_EQ(sscanf(comments[3].c_str(),
                     "stacks: %*u distinct; %lu samples with a truncated stack", &truncated),
              1)
        << comments[3];
    EXPECT_GE(truncated, 120u);
    EXPECT_LE(truncated, recorded);
    blocks.drop_all();
  }).join();
  ASSERT_EQ(seemalloc_profile_stop(), 0);
  ASSERT_EQ(seemalloc_option_set("stack_depth", "64"), 0);
}

TEST(Fragmentation, ProfileWithMemoryRefused) {
  os::FailCalls refuse(SYS_mmap, ENOMEM);
  ProfileBytes taken{};
  EXPECT_FALSE(find_profile_kind("fragmentation")->collect(&taken));
}

// Homes end with their samples, whichever thread frees them, in any order, whatever is refused
// meanwhile.
TEST(Homes, EndWithTheirSamples) {
  heap::HomeTotals before = heap::home_totals();
  unsigned seed = seed_for_test();
  SCOPED_TRACE(seed);
  ASSERT_EQ(seemalloc_option_set("sample_limit", "0"), 0);
  ASSERT_EQ(seemalloc_profile_start(1 * KiB), 0);
  constexpr unsigned kThreads = 4;
  std::vector<void*> left[kThreads];
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < kThreads; t++) {
    threads.emplace_back([&, t] {
      std::mt19937 random(seed + t);
      std::vector<void*> blocks(500);
      for (int i = 0; i < 40000; i++) {
        void*& place = blocks[random() % blocks.size()];
        sm_free(place);
        place = sm_malloc(random() % 2000);
        if (i % 10000 == 5000) take_profile();
        if (i % 4000 == 0) {  // a phase ends
          for (void*& p : blocks) sm_free(std::exchange(p, nullptr));
        }
      }
      left[t] = blocks;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(heap::home_totals().homes, before.homes);
  for (auto& blocks : left) {
    for (void* p : blocks) sm_free(p);
  }
  EXPECT_EQ(heap::home_totals().homes, before.homes);
  EXPECT_EQ(heap::home_totals().waiting, before.waiting);
  ASSERT_EQ(seemalloc_profile_stop(), 0);
  ASSERT_EQ(seemalloc_option_set("sample_limit", "10000"), 0);
}

TEST(Homes, WithMemoryRefused) {
  heap::HomeTotals before = heap::home_totals();
  ASSERT_EQ(seemalloc_profile_start(1 * KiB), 0);
  std::vector<void*> blocks;
  {
    os::FailCalls refuse(SYS_mmap, ENOMEM);
    while (void* p = sm_malloc(64)) blocks.push_back(p);
  }
  for (void* p : blocks) sm_free(p);
  EXPECT_EQ(heap::home_totals().homes, before.homes);
  ASSERT_EQ(seemalloc_profile_stop(), 0);
}

TEST(Homes, AreTheChildsToo) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "the sanitizer allows no threads after a fork, and the child starts a helper";
#endif
  ASSERT_EQ(seemalloc_profile_start(1 * KiB), 0);
  std::atomic<bool> stop{false};
  std::thread busy([&] {
    while (!stop) {
      void* blocks[100];
      for (void*& p : blocks) p = sm_malloc(100);
      for (void* p : blocks) sm_free(p);
    }
  });
  for (int i = 0; i < 40; i++) {
    pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      alarm(20);
      std::vector<void*> blocks;
      for (int n = 0; n < 5000; n++) blocks.push_back(sm_malloc(100));
      take_profile();
      for (void* p : blocks) sm_free(p);
      _exit(0);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  }
  stop = true;
  busy.join();
  ASSERT_EQ(seemalloc_profile_stop(), 0);
}

}  // namespace
}  // namespace seemalloc

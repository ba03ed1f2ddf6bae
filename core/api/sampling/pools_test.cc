// Memory pools through the public calls: the profile against the pools' actual contents, for random
// programs; names, threads, fork, and refused memory.
#include <gtest/gtest.h>
#include <seemalloc/seemalloc.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <map>
#include <random>
#include <thread>
#include <vector>

#include "core/api/dumps/profile_kinds.h"
#include "core/base/seed_for_test.h"
#include "core/os/kernel/fault.h"
#include "core/profile/heap/pool_profile.h"
#include "core/profile/pprof/decoder_for_test.h"

namespace seemalloc {
namespace {

struct Sums {
  int64_t alloc_objects = 0, alloc_bytes = 0, objects = 0, bytes = 0;
};

std::string take_pools_profile() {
  ProfileBytes profile{};
  EXPECT_TRUE(find_profile_kind("pools")->collect(&profile));
  std::string bytes(profile.data, profile.bytes);
  release_profile(profile);
  return bytes;
}

std::map<std::string, Sums> by_pool() {
  std::map<std::string, Sums> pools;
  for (const profile::DecodedRow& row : profile::rows_of(take_pools_profile())) {
    EXPECT_EQ(row.values.size(), 4u);
    EXPECT_FALSE(row.stack.empty());
    Sums& sums = pools[row.labels.at("pool")];
    sums.alloc_objects += row.values[0];
    sums.alloc_bytes += row.values[1];
    sums.objects += row.values[2];
    sums.bytes += row.values[3];
  }
  return pools;
}

class Pools : public testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(seemalloc_profile_start(1), 0); }
  void TearDown() override { ASSERT_EQ(seemalloc_profile_stop(), 0); }
};

const void* at(uintptr_t number) { return reinterpret_cast<const void*>(number * 8); }

// A pool and its expected contents.
struct Modelled {
  seemalloc_pool_t* pool = nullptr;
  std::map<uintptr_t, size_t> blocks;
};

// Random calls; with everything recorded the profile is exact.
class Machine {
 public:
  explicit Machine(unsigned seed) : random_(seed) {
    for (unsigned i = 0; i < kPools; i++) open(i);
  }
  void step() {
    unsigned i = random_() % kPools;
    uintptr_t block = 1 + random_() % 500;
    switch (random_() % 50) {
      case 0:
        seemalloc_pool_destroy(pools_[i].pool);
        drop_all(i);
        return open(i);
      case 1: seemalloc_pool_reset(pools_[i].pool); return drop_all(i);
      default: random_() % 2 == 0 ? alloc(i, block) : free(i, block);
    }
  }
  // Three pools to a name.
  void check() const {
    std::map<std::string, Sums> said = by_pool();
    for (unsigned name = 0; name < kPools / 3; name++) {
      Sums sums = expected_[name];
      for (unsigned i = 3 * name; i < 3 * name + 3; i++) {
        for (auto& [block, bytes] : pools_[i].blocks)
          sums.objects++, sums.bytes += static_cast<int64_t>(bytes);
      }
      const Sums& got = said["model " + std::to_string(name)];
      ASSERT_EQ(got.objects, sums.objects) << name;
      ASSERT_EQ(got.bytes, sums.bytes) << name;
      ASSERT_EQ(got.alloc_objects, sums.alloc_objects) << name;
      ASSERT_EQ(got.alloc_bytes, sums.alloc_bytes) << name;
    }
  }
  void close() {
    for (Modelled& modelled : pools_) seemalloc_pool_destroy(modelled.pool);
    for (Modelled& modelled : pools_) modelled.blocks.clear();
  }

 private:
  static constexpr unsigned kPools = 9;

  void open(unsigned i) {
    pools_[i].pool = seemalloc_pool_create(("model " + std::to_string(i / 3)).c_str());
    ASSERT_NE(pools_[i].pool, nullptr);
  }
  // Also where a block exists: the pool has not reported its end.
  void alloc(unsigned i, uintptr_t block) {
    size_t bytes = random_() % 5000;
    seemalloc_pool_alloc(pools_[i].pool, at(block), bytes);
    if (bytes == 0) bytes = 1;
    pools_[i].blocks[block] = bytes;
    expected_[i / 3].alloc_objects++;
    expected_[i / 3].alloc_bytes += static_cast<int64_t>(bytes);
  }
  void free(unsigned i, uintptr_t block) {  // also where no block exists
    seemalloc_pool_free(pools_[i].pool, at(block));
    pools_[i].blocks.erase(block);
  }
  void drop_all(unsigned i) { pools_[i].blocks.clear(); }

  std::mt19937 random_;
  Modelled pools_[kPools];
  Sums expected_[kPools / 3];
};

TEST_F(Pools, MatchTheModel) {
  unsigned seed = seed_for_test();
  SCOPED_TRACE(seed);
  Machine machine(seed);
  for (int i = 0; i < 100000 && !HasFatalFailure(); i++) {
    machine.step();
    if (i % 10000 == 0) machine.check();
  }
  machine.check();
  machine.close();
  machine.check();
}

TEST_F(Pools, NoPoolIsAllowed) {
  seemalloc_pool_alloc(nullptr, at(1), 1);
  seemalloc_pool_free(nullptr, at(1));
  seemalloc_pool_reset(nullptr);
  seemalloc_pool_destroy(nullptr);
  seemalloc_pool_t* pool = seemalloc_pool_create(nullptr);
  ASSERT_NE(pool, nullptr);
  seemalloc_pool_alloc(pool, nullptr, 1);
  seemalloc_pool_free(pool, nullptr);
  seemalloc_pool_destroy(pool);
}

TEST_F(Pools, LongNamesAreCutBetweenCharacters) {
  std::string name(46, 'x');
  // The 47th and 48th byte.
  seemalloc_pool_t* pool = seemalloc_pool_create((name + "é and more").c_str());
  seemalloc_pool_alloc(pool, at(1), 10);
  EXPECT_EQ(by_pool()[name].bytes, 10);
  seemalloc_pool_destroy(pool);
}

// Readers of profiles accept no other names: labels are UTF-8, and an empty one is ignored.
TEST_F(Pools, NamesCanBeRead) {
  struct {
    const char *given, *shown;
  } names[] = {
      {nullptr, "(no name)"},
      {"", "(no name)"},
      {"t\xC3\xA9xtes \xE2\x82\xAC \xF0\x9F\x98\x80",
       "t\xC3\xA9xtes \xE2\x82\xAC \xF0\x9F\x98\x80"},
      {"t\xE9xtes", "t\xEF\xBF\xBDxtes"},                // Latin-1
      {"cut \xE2\x82", "cut \xEF\xBF\xBD\xEF\xBF\xBD"},  // in the middle of a character
      {"\xC0\xAF", "\xEF\xBF\xBD\xEF\xBF\xBD"},          // longer than necessary
      {"\xE0\x80\xAF", "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"},
      {"\xED\xA0\x80", "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"},  // half of a pair
      {"\xF5\x80\x80\x80", "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"},
  };
  for (auto& name : names) {
    std::map<std::string, Sums> before = by_pool();
    seemalloc_pool_t* pool = seemalloc_pool_create(name.given);
    seemalloc_pool_alloc(pool, at(1), 10);
    EXPECT_EQ(by_pool()[name.shown].bytes, before[name.shown].bytes + 10) << name.shown;
    seemalloc_pool_destroy(pool);
  }
}

TEST_F(Pools, ThreadsShareThem) {
  seemalloc_pool_t* shared = seemalloc_pool_create("shared");
  std::vector<std::thread> threads;
  for (uintptr_t t = 0; t < 4; t++) {
    threads.emplace_back([=] {
      seemalloc_pool_t* own = seemalloc_pool_create("own");
      for (uintptr_t i = 1; i <= 2000; i++) {
        seemalloc_pool_alloc(shared, at(10000 * t + i), 3);
        seemalloc_pool_alloc(own, at(i), 5);
        if (i % 2 == 0) seemalloc_pool_free(shared, at(10000 * t + i));
        if (i % 100 == 0) seemalloc_pool_reset(own);
        if (i % 500 == 0) take_pools_profile();
      }
      seemalloc_pool_destroy(own);
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::map<std::string, Sums> said = by_pool();
  EXPECT_EQ(said["shared"].objects, 4000);
  EXPECT_EQ(said["shared"].bytes, 12000);
  EXPECT_EQ(said["own"].objects, 0);
  EXPECT_EQ(said["own"].alloc_objects, 8000);
  seemalloc_pool_destroy(shared);
  EXPECT_EQ(by_pool()["shared"].objects, 0);
}

TEST_F(Pools, ContinueInAForkedChild) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP()
      << "locks of the sanitizer's own that the other threads hold at a fork stay locked in the child";
#endif
  seemalloc_pool_t* pool = seemalloc_pool_create("forked");
  seemalloc_pool_alloc(pool, at(1), 100);
  std::atomic<bool> stop{false};
  std::thread busy([&] {
    seemalloc_pool_t* other = seemalloc_pool_create("busy");
    for (uintptr_t i = 1; !stop; i = i % 1000 + 1) seemalloc_pool_alloc(other, at(i), i);
    seemalloc_pool_destroy(other);
  });
  for (int i = 0; i < 50; i++) {
    pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      alarm(20);
      seemalloc_pool_alloc(pool, at(2), 50);
      seemalloc_pool_free(pool, at(1));
      _exit(by_pool()["forked"].bytes == 50 ? 0 : 1);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  }
  stop = true;
  busy.join();
  EXPECT_EQ(by_pool()["forked"].bytes, 100);
  seemalloc_pool_destroy(pool);
}

__attribute__((noinline)) void alloc_at_depth(seemalloc_pool_t* pool, unsigned depth) {
  depth == 0 ? seemalloc_pool_alloc(pool, at(7), 8) : alloc_at_depth(pool, depth - 1);
  asm volatile("");
}

TEST_F(Pools, MarkIncompleteStacks) {
  seemalloc_pool_t* pool = seemalloc_pool_create("deep");
  uint64_t before = profile::pool_totals().truncated_samples;
  alloc_at_depth(pool, 10);
  EXPECT_EQ(profile::pool_totals().truncated_samples, before);
  ASSERT_EQ(seemalloc_option_set("stack_depth", "8"), 0);
  for (int i = 0; i < 3; i++) alloc_at_depth(pool, 10);
  ASSERT_EQ(seemalloc_option_set("stack_depth", "64"), 0);
  std::vector<std::string> comments = profile::decode(take_pools_profile()).comments;
  ASSERT_EQ(comments.size(), 3u);
  std::string said = std::to_string(profile::pool_totals().stacks) + " distinct; " +
                     std::to_string(before + 3) + " samples with a truncated stack, 0 ";
  EXPECT_NE(comments[1].find("there is no exact total: only sampled blocks are counted"),
            std::string::npos)
      << comments[1];
  EXPECT_NE(comments[2].find(said), std::string::npos) << comments[2];
  seemalloc_pool_destroy(pool);
}

TEST_F(Pools, MemoryRefused) {
  uint64_t dropped = profile::pool_totals().dropped;
  std::vector<seemalloc_pool_t*> pools;
  {
    os::FailCalls refuse(SYS_mmap, ENOMEM);
    seemalloc_pool_t* pool = seemalloc_pool_create("refused");
    for (uintptr_t i = 1;
         i < 2000000 && pool != nullptr && profile::pool_totals().dropped == dropped; i += 1000) {
      for (uintptr_t block = i; block < i + 1000; block++) seemalloc_pool_alloc(pool, at(block), 8);
    }
    if (pool != nullptr) {
      EXPECT_GT(profile::pool_totals().dropped, dropped);
      pools.push_back(pool);
    }
    ProfileBytes profile{};
    EXPECT_FALSE(find_profile_kind("pools")->collect(&profile));
    while ((pool = seemalloc_pool_create("another")) != nullptr) pools.push_back(pool);
  }
  for (seemalloc_pool_t* pool : pools) seemalloc_pool_destroy(pool);
  EXPECT_EQ(by_pool()["refused"].objects, 0);
}

// Blocks are sampled by their bytes: the estimate is within its error, whatever their sizes, and
// not biased.
TEST_F(Pools, EstimatesAreRightOnAverage) {
  unsigned seed = seed_for_test();
  SCOPED_TRACE(seed);
  ASSERT_EQ(seemalloc_option_set("sample_limit", "0"), 0);
  ASSERT_EQ(seemalloc_profile_start(4096), 0);
  std::mt19937 random(seed);
  double sum = 0;
  constexpr int kRounds = 40;
  for (int round = 0; round < kRounds; round++) {
    seemalloc_pool_t* pool = seemalloc_pool_create("estimated");
    double live = 0;
    for (uintptr_t i = 1; i < 20000; i++) {
      size_t bytes = random() % 50 == 0 ? random() % 20000 : 1 + random() % 200;
      seemalloc_pool_alloc(pool, at(i), bytes);
      if (i % 3 == 0) {
        seemalloc_pool_free(pool, at(i));
      } else {
        live += static_cast<double>(bytes);
      }
    }
    profile::PoolTotals totals = profile::pool_totals();
    double off = (totals.inuse_bytes - live) / totals.inuse_bytes_stderr;
    EXPECT_LT(std::abs(off), 5) << totals.inuse_bytes << " for " << live;
    sum += off;
    seemalloc_pool_destroy(pool);
  }
  EXPECT_LT(std::abs(sum / std::sqrt(kRounds)), 4);
  ASSERT_EQ(seemalloc_option_set("sample_limit", "10000"), 0);
}

// Last: there is no space for names afterwards.
TEST_F(Pools, TooManyNamesShareOne) {
  std::vector<seemalloc_pool_t*> pools;
  for (size_t i = 0; i < profile::kMaxPoolNames + 10; i++) {
    pools.push_back(seemalloc_pool_create(("name " + std::to_string(i)).c_str()));
    ASSERT_NE(pools.back(), nullptr);
    seemalloc_pool_alloc(pools.back(), at(1), 1);
  }
  std::map<std::string, Sums> said = by_pool();
  EXPECT_GE(said["(other pools)"].objects, 10);
  EXPECT_EQ(said["name 0"].objects, 1);
  for (seemalloc_pool_t* pool : pools) seemalloc_pool_destroy(pool);
}

}  // namespace
}  // namespace seemalloc

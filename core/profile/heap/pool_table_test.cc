// Tests the table of sampled pool blocks against a map with random operations: both have the same
// blocks, and other blocks are not held.
#include "core/profile/heap/pool_table.h"

#include <gtest/gtest.h>
#include <sys/syscall.h>

#include <array>
#include <map>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "core/base/seed_for_test.h"
#include "core/os/kernel/clock.h"
#include "core/os/kernel/fault.h"

namespace seemalloc::profile {
namespace {

Pool* pool_number(uintptr_t number) {
  static std::array<Pool, 300> pools;
  return &pools.at(number);
}

using Key = std::pair<uintptr_t, Pool*>;

class Model {
 public:
  explicit Model(unsigned seed) : random_(seed) {}

  void step() {
    uintptr_t block = 16 * (1 + random_() % 3000);
    Pool* pool = pool_number(1 + random_() % 5);
    switch (random_() % 32) {
      case 0: return remove_pool(pool);
      default: known_.count({block, pool}) != 0 ? remove(block, pool) : add(block, pool);
    }
  }
  void check_all() {
    size_t seen = 0;
    table().for_each([&](const PoolSample& sample) {
      seen++;
      ASSERT_EQ(known_.count({sample.block, sample.pool}), 1u);
      ASSERT_EQ(known_.at({sample.block, sample.pool}), sample.bytes);
    });
    EXPECT_EQ(seen, known_.size());
  }
  void empty() {
    for (uintptr_t pool = 1; pool <= 5; pool++) remove_pool(pool_number(pool));
    EXPECT_TRUE(known_.empty());
    for (uintptr_t block = 0; block < 3001; block++) EXPECT_FALSE(table().may_hold(16 * block));
  }

 private:
  static PoolTable& table() {
    static constinit PoolTable one;
    return one;
  }
  void add(uintptr_t block, Pool* pool) {
    uint64_t bytes = random_();
    ASSERT_TRUE(table().add({block, pool, nullptr, bytes, 1}));
    known_[{block, pool}] = bytes;
    ASSERT_TRUE(table().may_hold(block));
  }
  void remove(uintptr_t block, Pool* pool) {
    PoolSample sample;
    ASSERT_TRUE(table().may_hold(block));
    ASSERT_TRUE(table().remove(block, pool, &sample));
    ASSERT_EQ(sample.bytes, known_.at({block, pool}));
    known_.erase({block, pool});
    ASSERT_FALSE(table().remove(block, pool, &sample));
  }
  void remove_pool(Pool* pool) {
    size_t taken = 0, expected = 0;
    for (auto& [key, bytes] : known_) expected += key.second == pool;
    table().remove_all(pool, UINT64_MAX, [&](const PoolSample& sample) {
      taken += known_.erase({sample.block, sample.pool});
    });
    ASSERT_EQ(taken, expected);
  }

  std::mt19937 random_;
  std::map<Key, uint64_t> known_;
};

TEST(PoolTable, IsAMap) {
  unsigned seed = seed_for_test();
  SCOPED_TRACE(seed);
  Model model(seed);
  for (int i = 0; i < 200000; i++) {
    model.step();
    if (HasFatalFailure()) return;
    if (i % 5000 == 0) model.check_all();
  }
  model.check_all();
  model.empty();
}

TEST(PoolTable, MemoryRefused) {
  static constinit PoolTable table;
  os::FailCalls refuse(SYS_mmap, ENOMEM);
  // The arena's remaining memory is used up first. Then the table is full, and keeps its samples.
  uintptr_t block = 16;
  while (block < 16u << 20 && table.add({block, pool_number(1), nullptr, block, 1})) block += 16;
  EXPECT_LT(block, 16u << 20);
  for (uintptr_t each = 16; each < block; each += 16) {
    PoolSample sample;
    ASSERT_TRUE(table.remove(each, pool_number(1), &sample)) << each;
  }
}

TEST(PoolTable, Threads) {
  static constinit PoolTable table;
  std::vector<std::thread> threads;
  for (uintptr_t t = 1; t <= 4; t++) {
    threads.emplace_back([t] {
      PoolSample sample;
      for (int round = 0; round < 200; round++) {
        for (uintptr_t block = 16; block < 1600; block += 16)
          ASSERT_TRUE(table.add({block, pool_number(t), nullptr, t, 1}));
        if (round % 10 == 0) {
          size_t count = 0;
          table.remove_all(pool_number(t), UINT64_MAX,
                           [&](const PoolSample& each) { count += each.bytes == t; });
          ASSERT_EQ(count, 99u);
          continue;
        }
        for (uintptr_t block = 16; block < 1600; block += 16)
          ASSERT_TRUE(table.remove(block, pool_number(t), &sample) && sample.bytes == t);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  table.for_each([](const PoolSample&) { FAIL() << "all were removed"; });
}

// A pool per request: the cost of emptying it does not depend on the samples of other pools.
TEST(PoolTable, ResettingAPoolIsLinear) {
  static constinit PoolTable table;
  auto request_ns = [] {
    uint64_t least = UINT64_MAX;
    for (int i = 0; i < 200; i++) {
      uint64_t begin = os::thread_cpu_ns();
      size_t taken = 0;
      for (uintptr_t block = 16; block <= 160; block += 16)
        EXPECT_TRUE(table.add({block, pool_number(1), nullptr, 1, 1}));
      table.remove_all(pool_number(1), UINT64_MAX, [&](const PoolSample&) { taken++; });
      EXPECT_EQ(taken, 10u);
      least = std::min(least, os::thread_cpu_ns() - begin);
    }
    return least;
  };
  uint64_t alone = request_ns();
  for (uintptr_t other = 2; other < 300; other++) {
    for (uintptr_t block = 16; block <= 16 * 2000; block += 16)
      ASSERT_TRUE(table.add({block, pool_number(other), nullptr, 1, 1}));
  }
  EXPECT_LT(request_ns(), 20 * alone);
}

}  // namespace
}  // namespace seemalloc::profile

#include "core/profile/sampling/live_table.h"

#include <gtest/gtest.h>
#include <sys/syscall.h>

#include <algorithm>
#include <atomic>
#include <random>
#include <thread>
#include <unordered_map>
#include <vector>

#include "core/base/seed_for_test.h"
#include "core/os/kernel/syscall.h"

namespace seemalloc::profile {
namespace {

Bucket* bucket() {
  static BucketTable buckets;
  static StackTable stacks;
  Stack stack;
  return buckets.intern(stack, BucketKey{64, 64, 1}, stacks);
}

SampleId add(LiveTable& table, size_t requested_bytes = 60) {
  return table.add({bucket(), requested_bytes, 1234, 7});
}

TEST(LiveTable, KeepsRecordedSamples) {
  static LiveTable table;
  SampleId id = table.add({bucket(), 57, 987654321, 42});
  ASSERT_NE(id, 0u);
  LiveSample sample = table.get(id);
  EXPECT_EQ(sample.bucket, bucket());
  EXPECT_EQ(sample.requested_bytes, 57u);
  EXPECT_EQ(sample.birth_ns, 987654321u);
  EXPECT_EQ(sample.thread, 42u);
  table.set_size(id, bucket(), 61);
  EXPECT_EQ(table.get(id).requested_bytes, 61u);
  EXPECT_EQ(table.remove(id).bucket, bucket());
}

TEST(LiveTable, HandsOutEachIdOnceAndRecycles) {
  static LiveTable table;
  uint64_t seed = seed_for_test();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  std::unordered_map<SampleId, size_t> alive;
  std::vector<SampleId> order;
  for (int round = 0; round < 20; round++) {
    while (order.size() < 20000) {
      SampleId id = add(table, order.size() % 64);
      ASSERT_NE(id, 0u);
      ASSERT_TRUE(alive.emplace(id, order.size() % 64).second);
      order.push_back(id);
    }
    size_t keep = random() % order.size();
    std::shuffle(order.begin(), order.end(), random);
    for (; order.size() > keep; order.pop_back()) {
      ASSERT_EQ(table.get(order.back()).requested_bytes, alive[order.back()]);
      table.remove(order.back());
      alive.erase(order.back());
    }
  }
  EXPECT_LE(table.capacity(), 20000u + 3 * 64);
}

// One thread only adds, another only removes: the records must return to the first.
TEST(LiveTable, StaysSmallWhenAnotherThreadFrees) {
  static LiveTable table;
  constexpr size_t kIds = 300000;
  constexpr size_t kAhead = 1000;
  std::vector<std::atomic<SampleId>> ids(kIds);
  std::atomic<size_t> removed{0};
  std::thread adder([&] {
    for (size_t i = 0; i < kIds; i++) {
      while (i > removed.load() + kAhead) std::this_thread::yield();
      ids[i].store(add(table));
    }
  });
  for (size_t i = 0; i < kIds; i++) {
    SampleId id;
    while ((id = ids[i].load()) == 0) std::this_thread::yield();
    table.remove(id);
    removed.store(i + 1);
  }
  adder.join();
  EXPECT_LE(table.capacity(), kAhead + 5 * 64 + 64);
}

TEST(LiveTable, SurvivesRefusedMemory) {
  static LiveTable table;
  os::fault_hook = [](long number) -> long { return number == SYS_mmap ? -12 : 0; };
  std::vector<SampleId> ids;
  while (SampleId id = add(table)) ids.push_back(id);
  EXPECT_LT(ids.size(), 50000u);
  os::fault_hook = nullptr;
  EXPECT_NE(add(table), 0u);
  for (SampleId id : ids) EXPECT_EQ(table.remove(id).bucket, bucket());
}

TEST(LiveTableDeathTest, AnIdFreedTwiceIsFatal) {
  static LiveTable table;
  SampleId id = add(table);
  table.remove(id);
  EXPECT_DEATH(table.remove(id), "internal check failed");
}

TEST(LiveTable, ReachesMillions) {
  static LiveTable table;
  constexpr size_t kIds = 2200000;  // more than one leaf of the directory
  std::vector<SampleId> ids;
  for (size_t i = 0; i < kIds; i++) ids.push_back(add(table, i % 60));
  for (size_t i = 0; i < kIds; i++) ASSERT_EQ(table.get(ids[i]).requested_bytes, i % 60);
  for (SampleId id : ids) table.remove(id);
  for (size_t i = 0; i < kIds; i++) ids[i] = add(table);
  EXPECT_LE(table.capacity(), kIds + 128);
}

}  // namespace
}  // namespace seemalloc::profile

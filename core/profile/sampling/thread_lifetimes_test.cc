// Tests the records of lifetimes by thread against a model: they are counted for the thread with
// the number, reset for the next one, and bounded.
#include "core/profile/sampling/thread_lifetimes.h"

#include <gtest/gtest.h>
#include <sys/syscall.h>

#include <atomic>
#include <map>
#include <memory>
#include <random>
#include <thread>
#include <tuple>
#include <vector>

#include "core/base/seed_for_test.h"
#include "core/os/kernel/fault.h"
#include "core/profile/sampling/bucket_table.h"
#include "core/profile/sampling/thread_table.h"

namespace seemalloc::profile {
namespace {

std::vector<Bucket> make_buckets(size_t count) {
  std::vector<Bucket> buckets(count);
  for (size_t i = 0; i < count; i++) buckets[i].hash = mix(i, 7);
  return buckets;
}
uint32_t number(uint32_t place, uint32_t times) { return times << ThreadTable::kSlotBits | place; }

using RecordKey = std::tuple<const Bucket*, unsigned, uint32_t>;  // bucket, way, thread
std::map<RecordKey, uint64_t> counts_of(const ThreadLifetimesTable& table) {
  std::map<RecordKey, uint64_t> counts;
  table.for_each([&](const ThreadLifetimes& record) {
    auto [at, fresh] = counts.insert(
        {{record.bucket, record.freed_by, record.thread.load()}, record.lifetimes.count()});
    EXPECT_TRUE(fresh) << "one record twice";
    EXPECT_EQ(record.slot, ThreadTable::slot_of(record.thread.load()));
  });
  return counts;
}

TEST(ThreadLifetimes, AgreeWithAModel) {
  static constinit ThreadLifetimesTable table;
  uint64_t seed = seed_for_test();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  std::vector<Bucket> buckets = make_buckets(10);
  uint32_t times[9] = {};
  times[1] = 0xFFF0;  // wraps around to 0
  std::map<RecordKey, uint64_t> model;
  for (int i = 0; i < 100000; i++) {
    uint32_t place = 1 + random() % 8;
    if (random() % 1000 == 0) times[place] = (times[place] + 1) & 0xFFFF;
    const Bucket& bucket = buckets[random() % buckets.size()];
    FreedBy by = random() % 2 == 0 ? FreedBy::kSameThread : FreedBy::kOtherThread;
    uint32_t late = (times[place] - 1) & 0xFFFF;
    bool is_late = by == FreedBy::kOtherThread && random() % 50 == 0 &&
                   model.count({&bucket, 2, number(place, times[place])}) != 0;
    table.add(bucket, by, number(place, is_late ? late : times[place]), random() % 100000);
    if (is_late) continue;
    for (auto at = model.begin(); at != model.end();) {
      auto [b, w, thread] = at->first;
      bool earlier = b == &bucket && w == static_cast<unsigned>(by) &&
                     ThreadTable::slot_of(thread) == place && thread != number(place, times[place]);
      at = earlier ? model.erase(at) : std::next(at);
    }
    model[{&bucket, static_cast<unsigned>(by), number(place, times[place])}]++;
  }
  EXPECT_EQ(counts_of(table), model);
}

TEST(ThreadLifetimes, AreBounded) {
  static constinit ThreadLifetimesTable table;
  std::vector<Bucket> buckets = make_buckets(100);
  for (uint32_t thread = 1; thread <= 3 * ThreadLifetimesTable::kMaxRecords / 100; thread++) {
    for (const Bucket& bucket : buckets) table.add(bucket, FreedBy::kOtherThread, thread, 5);
  }
  EXPECT_TRUE(table.is_full());
  EXPECT_EQ(table.size(), ThreadLifetimesTable::kMaxRecords);
  EXPECT_EQ(counts_of(table).size(), ThreadLifetimesTable::kMaxRecords);
  static constinit ThreadLifetimesTable smaller;
  for (int i = 0; i < 2; i++) {
    for (const Bucket& bucket : buckets) smaller.add(bucket, FreedBy::kOtherThread, 1, 5, 70);
  }
  EXPECT_TRUE(smaller.is_full(70));
  EXPECT_EQ(counts_of(smaller).size(), 70u);
  table.add(buckets[0], FreedBy::kOtherThread, 1, 5);
  EXPECT_EQ((counts_of(table)[{&buckets[0], 2, 1}]), 2u) << "known ones are still counted";
}

TEST(ThreadLifetimes, ThreadsMakeEachOnce) {
  static constinit ThreadLifetimesTable table;
  constexpr uint64_t kThreads = 4, kSteps = 20000;
  std::vector<Bucket> buckets = make_buckets(20);
  std::atomic<uint64_t> ready{0};
  std::vector<std::thread> threads;
  for (uint32_t t = 0; t < kThreads; t++) {
    threads.emplace_back([&, t] {
      ready++;
      while (ready != kThreads) {
      }
      for (uint64_t i = 0; i < kSteps; i++) {
        table.add(buckets[i % 20], FreedBy::kOtherThread, static_cast<uint32_t>(1 + i % 8), i);
        table.add(buckets[i % 20], FreedBy::kSameThread, 100 + t, i);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  uint64_t same = 0, another = 0;
  for (const auto& [who, count] : counts_of(table))
    (std::get<1>(who) == static_cast<unsigned>(FreedBy::kSameThread) ? same : another) += count;
  EXPECT_EQ(same, kThreads * kSteps);
  EXPECT_EQ(another, kThreads * kSteps);
}

// Other threads free blocks of threads whose number is reassigned meanwhile. In the end each record
// belongs to the last of these threads.
TEST(ThreadLifetimes, AreBegunAnewWhileOthersAdd) {
  static constinit ThreadLifetimesTable table;
  std::vector<Bucket> buckets = make_buckets(4);
  constexpr uint32_t kTimes = 300, kEach = 50;
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; t++) {
    threads.emplace_back([&] {
      for (uint32_t times = 0; times < kTimes; times++) {
        for (uint32_t i = 0; i < kEach; i++)
          table.add(buckets[i % 4], FreedBy::kOtherThread, number(1, times), 1000 * i);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::map<RecordKey, uint64_t> counts = counts_of(table);
  EXPECT_EQ(counts.size(), 4u);
  for (const auto& [who, count] : counts) {
    EXPECT_EQ(std::get<2>(who), number(1, kTimes - 1));
    EXPECT_GT(count, 0u);
    EXPECT_LE(count, uint64_t{3} * kTimes * kEach);
  }
}

TEST(ThreadLifetimes, MemoryRefused) {
  static constinit ThreadLifetimesTable table;
  std::vector<Bucket> buckets = make_buckets(2);
  os::FailCalls refuse(SYS_mmap, ENOMEM);
  // The arena's remaining memory is used up first.
  size_t before = 0;
  for (uint32_t thread = 1; thread <= ThreadTable::kMaxThreads; thread++) {
    before = table.size();
    for (const Bucket& bucket : buckets) table.add(bucket, FreedBy::kOtherThread, thread, 5);
    if (table.size() == before) break;
  }
  EXPECT_EQ(table.size(), before);
  EXPECT_EQ(counts_of(table).size(), before);
}

}  // namespace
}  // namespace seemalloc::profile

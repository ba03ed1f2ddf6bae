// Tests the store against a model with random stacks: in one thread with occasional reads, and in
// many threads at once. Every sample that was added is taken or counted as lost.
#include "core/profile/cpu/cpu_store.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <map>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "core/base/repetitions_for_test.h"
#include "core/base/seed_for_test.h"
#include "core/os/kernel/memory.h"

namespace seemalloc::profile {
namespace {

struct Unmap {
  void operator()(CpuSampleStore* store) const {
    os::unmap(store, round_up(sizeof(CpuSampleStore), os::page_bytes()), os::Reason::kReport);
  }
};
std::unique_ptr<CpuSampleStore, Unmap> make_store() {
  return std::unique_ptr<CpuSampleStore, Unmap>(static_cast<CpuSampleStore*>(
      os::map(round_up(sizeof(CpuSampleStore), os::page_bytes()), os::Reason::kReport)));
}

struct Count {
  uint64_t interrupts = 0, ticks = 0;
  bool operator==(const Count&) const = default;
};
using Model = std::map<std::vector<uintptr_t>, Count>;

// Stack number n: all different, some truncated, some broken, with depths from 0 to 128.
Stack stack_of(uint64_t n) {
  Stack stack;
  stack.depth = static_cast<uint32_t>(n % (kMaxStackDepth + 1));
  stack.truncated = n % 7 == 3;
  stack.broken = n % 5 == 2;
  for (uint32_t i = 0; i < stack.depth; i++)
    stack.pcs[i] = 0x1000 + i * 64 + n / (kMaxStackDepth + 1) * 0x10000;
  return stack;
}

std::vector<uintptr_t> key_of(const uintptr_t* pcs, uint32_t depth, bool truncated, bool broken,
                              uint32_t thread) {
  std::vector<uintptr_t> key(pcs, pcs + depth);
  key.push_back(truncated * 2u + broken);
  key.push_back(thread);
  return key;
}
std::vector<uintptr_t> key_of(const Stack& stack, uint32_t thread = 1) {
  return key_of(stack.pcs, stack.depth, stack.truncated, stack.broken, thread);
}

void note(Model& model, const CpuSample& sample) {
  Count& count =
      model[key_of(sample.pcs, sample.depth, sample.truncated, sample.broken, sample.thread)];
  count.interrupts += sample.interrupts;
  count.ticks += sample.ticks;
}

Count total(const Model& model) {
  Count sum;
  for (const auto& [stack, count] : model) {
    sum.interrupts += count.interrupts;
    sum.ticks += count.ticks;
  }
  return sum;
}

TEST(CpuSampleStore, KeepsAStackOnce) {
  auto store = make_store();
  for (int i = 0; i < 100; i++) store->add(stack_of(40), 1, 2);
  store->add(stack_of(41), 1, 1);
  std::vector<CpuSample> seen;
  EXPECT_TRUE(store->take_all([&](const CpuSample& sample) { seen.push_back(sample); }));
  ASSERT_EQ(seen.size(), 2u);
  const CpuSample& often = seen[0].interrupts == 100 ? seen[0] : seen[1];
  EXPECT_EQ(often.interrupts, 100u);
  EXPECT_EQ(often.ticks, 200u);
  EXPECT_EQ(often.depth, 40u);
  EXPECT_EQ(store->evictions(), 0u);
  EXPECT_EQ(store->lost(), 0u);
  seen.clear();
  store->take_all([&](const CpuSample& sample) { seen.push_back(sample); });
  EXPECT_TRUE(seen.empty()) << "taken twice";
}

TEST(CpuSampleStore, DistinguishesThreads) {
  auto store = make_store();
  for (uint32_t thread = 0; thread < 5; thread++) {
    for (uint32_t i = 0; i <= thread; i++) store->add(stack_of(40), thread, 1);
  }
  std::map<uint32_t, uint64_t> interrupts;
  store->take_all([&](const CpuSample& sample) { interrupts[sample.thread] += sample.interrupts; });
  EXPECT_EQ(interrupts, (std::map<uint32_t, uint64_t>{{0, 1}, {1, 2}, {2, 3}, {3, 4}, {4, 5}}));
}

TEST(CpuSampleStore, EvictsRareStacks) {
  auto store = make_store();
  // One stack that recurs constantly, among enough others that each set overflows.
  constexpr uint64_t kOthers = CpuSampleStore::kSets * CpuSampleStore::kWays * 4;
  Model model;
  auto take = [&](const CpuSample& sample) { note(model, sample); };
  for (uint64_t i = 0; i < kOthers; i++) {
    store->add(stack_of(77), 1, 1);
    store->add(stack_of(1000 + i), 1, 1);
    if (i % 100 == 0) store->take_evicted(take);
  }
  uint64_t often_evicted = model[key_of(stack_of(77))].interrupts;
  EXPECT_LT(often_evicted, kOthers / 10);
  EXPECT_GT(store->evictions(), kOthers / 2);
  EXPECT_EQ(store->lost(), 0u);
  store->take_all(take);
  EXPECT_EQ(model[key_of(stack_of(77))].interrupts, kOthers);
  EXPECT_GT(model.size(), kOthers * 95 / 100);  // stacks without a frame are the same
}

// Random adds and takes. While the ring has room, every sample is found, stack by stack. After it
// was full, the lost samples are exactly the missing ones.
TEST(CpuSampleStore, AgreesWithAModel) {
  uint64_t chosen = seed_for_test();
  std::mt19937_64 random(chosen);
  for (int round = 0; round < repetitions(20); round++) {
    auto store = make_store();
    Model in, out;
    auto take = [&](const CpuSample& sample) { note(out, sample); };
    uint64_t stacks = uint64_t{1} << random() % 15;
    bool lazy = random() % 3 == 0;  // the reader hardly ever runs
    for (int step = 0; step < 20000; step++) {
      Stack stack = stack_of(random() % stacks);
      uint64_t ticks = 1 + random() % 3;
      uint32_t thread = static_cast<uint32_t>(random() % 3);
      store->add(stack, thread, ticks);
      Count& count = in[key_of(stack, thread)];
      count.interrupts++;
      count.ticks += ticks;
      bool full = !lazy && store->ring_is_half_full();  // as the helper thread does
      if (full || random() % (lazy ? 15000 : 50) == 0) store->take_evicted(take);
      if (random() % 5000 == 0) store->take_all(take);
    }
    ASSERT_TRUE(store->take_all(take)) << "SEED=" << chosen;
    ASSERT_TRUE(lazy || store->lost() == 0) << "SEED=" << chosen;
    ASSERT_TRUE(store->lost() != 0 || in == out) << "SEED=" << chosen << " round " << round;
    ASSERT_EQ(total(in).interrupts, total(out).interrupts + store->lost())
        << "SEED=" << chosen << " round " << round;
    ASSERT_EQ(total(in).ticks, total(out).ticks + store->lost_ticks())
        << "SEED=" << chosen << " round " << round;
    for (const auto& [stack, count] : out) {
      ASSERT_GE(in[stack].interrupts, count.interrupts) << "SEED=" << chosen << " round " << round;
    }
  }
}

// Many writers, also of the same stacks, and a concurrent reader. `paced`: writers wait for the
// reader, so that the ring always has room and nothing may be lost.
void run_threads(bool paced) {
  uint64_t chosen = seed_for_test();
  auto store = make_store();
  constexpr int kThreads = 4, kSteps = 30000;
  std::atomic<int> running{kThreads};
  std::atomic<int64_t> allowed{0};  // adds; each puts at most one sample into the ring
  std::vector<Model> in(kThreads);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; t++) {
    threads.emplace_back([&, t] {
      std::mt19937_64 random(chosen + static_cast<uint64_t>(t));
      for (int step = 0; step < kSteps; step++) {
        while (paced && allowed.fetch_sub(1) <= 0) std::this_thread::yield();
        uint64_t stacks = step % 2 == 0 ? 8 : 20000;
        Stack stack = stack_of(random() % stacks);
        uint32_t thread = static_cast<uint32_t>(t / 2);
        store->add(stack, thread, 1);
        Count& count = in[static_cast<size_t>(t)][key_of(stack, thread)];
        count.interrupts++;
        count.ticks++;
      }
      running--;
    });
  }
  Model out, expected;
  auto take = [&](const CpuSample& sample) { note(out, sample); };
  for (int i = 0; running != 0; i++) {
    store->take_evicted(take);
    if (i % 16 == 0) store->take_all(take);
    if (!store->ring_is_half_full()) allowed = CpuSampleRing::kSlots / 2 - 2 * kThreads;
  }
  for (std::thread& thread : threads) thread.join();
  ASSERT_TRUE(store->take_all(take));
  for (const Model& model : in) {
    for (const auto& [stack, count] : model) {
      expected[stack].interrupts += count.interrupts;
      expected[stack].ticks += count.ticks;
    }
  }
  EXPECT_EQ(total(expected).interrupts, total(out).interrupts + store->lost()) << "SEED=" << chosen;
  EXPECT_EQ(total(expected).ticks, total(out).ticks + store->lost_ticks());
  if (paced) {
    EXPECT_EQ(store->lost(), 0u);
    EXPECT_TRUE(expected == out) << "SEED=" << chosen;
  }
  for (const auto& [stack, count] : out)
    EXPECT_GE(expected[stack].interrupts, count.interrupts) << "SEED=" << chosen;
}

TEST(CpuSampleStore, LosesNothingBetweenThreads) { run_threads(true); }
TEST(CpuSampleStore, CountsSamplesLostBetweenThreads) { run_threads(false); }

TEST(CpuSampleRing, IsFullAndThenNot) {
  void* memory = os::map(round_up(sizeof(CpuSampleRing), os::page_bytes()), os::Reason::kReport);
  CpuSampleRing* ring = static_cast<CpuSampleRing*>(memory);
  uint64_t next = 0, read = 0;
  for (int lap = 0; lap < 5; lap++) {
    auto fill = [&](CpuSample& sample) { sample.hash = next; };
    while (ring->put(fill)) next++;
    EXPECT_EQ(ring->waiting(), CpuSampleRing::kSlots);
    ring->take([&](const CpuSample& sample) { EXPECT_EQ(sample.hash, read++); });
    EXPECT_EQ(read, next);
    // Do not always start at slot 0.
    for (int i = 0; i < 37; i++) {
      ASSERT_TRUE(ring->put(fill));
      next++;
    }
  }
  os::unmap(memory, round_up(sizeof(CpuSampleRing), os::page_bytes()), os::Reason::kReport);
}

}  // namespace
}  // namespace seemalloc::profile

#include "core/profile/sampling/free_stacks.h"

#include <gtest/gtest.h>
#include <sys/syscall.h>

#include <atomic>
#include <map>
#include <random>
#include <thread>
#include <vector>

#include "core/base/seed_for_test.h"
#include "core/os/kernel/fault.h"

namespace seemalloc::profile {
namespace {

Stack make_stack(uintptr_t number) {
  Stack stack;
  stack.depth = 1 + number % 5;
  for (uint32_t i = 0; i < stack.depth; i++) stack.pcs[i] = 0x1000 + number * 16 + i;
  return stack;
}

std::map<uintptr_t, uint64_t> counts_of(const Lifetimes& lifetimes) {
  std::map<uintptr_t, uint64_t> counts;
  for (const FreeStack* each = lifetimes.free_stacks(); each != nullptr; each = each->next) {
    EXPECT_EQ(counts.count(each->stack->pcs()[0]), 0u) << "one stack twice";
    counts[each->stack->pcs()[0]] = each->count.load();
  }
  return counts;
}

TEST(FreeStackTable, AgreesWithModel) {
  static constinit FreeStackTable table;
  static constinit StackTable stacks;
  uint64_t seed = seed_for_test();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  std::vector<Lifetimes> lifetimes(20);
  std::vector<std::map<uintptr_t, uint64_t>> model(20);
  for (int i = 0; i < 50000; i++) {
    size_t at = random() % 20;
    Stack stack = make_stack(random() % (1 + random() % 50));
    const InternedStack* interned = table.intern(lifetimes[at], stack, stacks);
    ASSERT_NE(interned, nullptr);
    table.add(lifetimes[at], interned, at % 2 == 0);
    model[at][stack.pcs[0]]++;
  }
  size_t all = 0;
  for (size_t at = 0; at < 20; at++) {
    EXPECT_EQ(counts_of(lifetimes[at]), model[at]);
    all += model[at].size();
  }
  EXPECT_EQ(table.size(), all);
}

TEST(FreeStackTable, OneListIsBounded) {
  static constinit FreeStackTable table;
  static constinit StackTable stacks;
  Lifetimes lifetimes[2];
  for (uintptr_t number = 0; number < FreeStackTable::kMaxEntriesPerRecord; number++) {
    for (uintptr_t of : {0, 1})
      table.add(lifetimes[of], table.intern(lifetimes[of], make_stack(1000 * of + number), stacks),
                false);
  }
  // The table has space, and the stack is known from the other record.
  table.add(lifetimes[0], table.intern(lifetimes[0], make_stack(1000), stacks), false);
  EXPECT_EQ(counts_of(lifetimes[0]).size(), FreeStackTable::kMaxEntriesPerRecord);
  EXPECT_EQ(table.size(), 2 * FreeStackTable::kMaxEntriesPerRecord);
  EXPECT_EQ(table.intern(lifetimes[0], make_stack(2000), stacks), nullptr);
}

TEST(FreeStackTable, IsBounded) {
  static constinit FreeStackTable table;
  static constinit StackTable stacks;
  constexpr size_t kRecords =
      2 * FreeStackTable::kMaxEntries / FreeStackTable::kMaxEntriesPerRecord;
  std::vector<Lifetimes> lifetimes(kRecords);
  uintptr_t number = 0;
  for (Lifetimes& each : lifetimes) {
    for (size_t i = 0; i < 3 * FreeStackTable::kMaxEntriesPerRecord; i++) {
      const InternedStack* stack = table.intern(each, make_stack(number++), stacks);
      if (stack != nullptr) table.add(each, stack, false);
    }
    EXPECT_LE(counts_of(each).size(), FreeStackTable::kMaxEntriesPerRecord);
  }
  EXPECT_EQ(counts_of(lifetimes[0]).size(), FreeStackTable::kMaxEntriesPerRecord);
  EXPECT_EQ(table.size(), FreeStackTable::kMaxEntries);
  EXPECT_EQ(stacks.size(), FreeStackTable::kMaxEntries)
      << "a stack that is in no list was interned";
  // Known stacks are still counted.
  table.add(lifetimes[0], table.intern(lifetimes[0], make_stack(0), stacks), false);
  EXPECT_EQ(counts_of(lifetimes[0])[0x1000], 2u);
  // A known stack does not allow exceeding the bound.
  table.add(lifetimes[kRecords - 1], table.intern(lifetimes[0], make_stack(0), stacks), false);
  EXPECT_EQ(counts_of(lifetimes[kRecords - 1]).size(), 0u);
  EXPECT_EQ(table.size(), FreeStackTable::kMaxEntries);
}

TEST(FreeStackTable, ThreadsMakeOneEntryPerStack) {
  static constinit FreeStackTable table;
  static constinit StackTable stacks;
  constexpr uint64_t kThreads = 4, kSteps = 80, kStacks = 40;
  for (int round = 0; round < 150; round++) {
    Lifetimes lifetimes;
    std::atomic<uint64_t> ready{0};
    std::vector<std::thread> threads;
    for (uint64_t t = 0; t < kThreads; t++) {
      threads.emplace_back([&] {
        ready++;
        while (ready != kThreads) {
        }
        for (uint64_t i = 0; i < kSteps; i++) {
          table.add(lifetimes, table.intern(lifetimes, make_stack(i % kStacks), stacks), false);
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    std::map<uintptr_t, uint64_t> counts = counts_of(lifetimes);
    ASSERT_EQ(counts.size(), kStacks);
    for (const auto& [pc, count] : counts) ASSERT_EQ(count, kThreads * kSteps / kStacks);
  }
  EXPECT_EQ(table.size(), 150 * kStacks);
}

TEST(FreeStackTable, SurvivesRefusedMemory) {
  static constinit FreeStackTable table;
  static constinit StackTable stacks;
  os::FailCalls refuse(SYS_mmap, ENOMEM);
  std::vector<Lifetimes> lifetimes(FreeStackTable::kMaxEntries);
  // The arena's remaining memory is used up first.
  size_t refused = 0;
  for (uintptr_t number = 0; number < 1000000 && refused < 10; number++) {
    Lifetimes& each = lifetimes[number % FreeStackTable::kMaxEntries];
    const InternedStack* stack =
        table.intern(each, make_stack(number % 20 == 0 ? number : 0), stacks);
    size_t before = table.size();
    if (stack != nullptr) table.add(each, stack, false);
    refused += stack == nullptr || (table.size() == before && counts_of(each).empty());
  }
  EXPECT_EQ(refused, 10u);
  size_t made = 0;
  for (Lifetimes& each : lifetimes) made += counts_of(each).size();
  EXPECT_EQ(table.size(), made);
}

}  // namespace
}  // namespace seemalloc::profile

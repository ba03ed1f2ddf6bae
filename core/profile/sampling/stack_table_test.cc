#include "core/profile/sampling/stack_table.h"

#include <gtest/gtest.h>
#include <sys/syscall.h>

#include <set>
#include <thread>
#include <vector>

#include "core/os/kernel/syscall.h"

namespace seemalloc::profile {
namespace {

Stack make_stack(uintptr_t number, uint32_t depth) {
  Stack stack;
  stack.depth = depth;
  for (uint32_t i = 0; i < depth; i++) stack.pcs[i] = 0x1000 + (i == 0 ? number : i);
  return stack;
}

const InternedStack* intern(StackTable& table, const Stack& stack) {
  return table.intern(stack, hash_stack(stack));
}

TEST(StackTable, KeepsEachStackOnce) {
  static StackTable table;
  Stack stack = make_stack(1, 5);
  const InternedStack* first = intern(table, stack);
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(intern(table, stack), first);
  EXPECT_TRUE(same_stack(*first, stack));
  EXPECT_EQ(table.size(), 1u);
}

TEST(StackTable, DistinguishesDepthMarksAndOrder) {
  static StackTable table;
  std::set<const InternedStack*> seen;
  for (uint32_t depth : {0u, 1u, 2u, 3u, 127u, 128u})
    seen.insert(intern(table, make_stack(7, depth)));
  Stack marked = make_stack(7, 3);
  marked.truncated = true;
  seen.insert(intern(table, marked));
  marked.broken = true;
  seen.insert(intern(table, marked));
  Stack swapped = make_stack(7, 3);
  std::swap(swapped.pcs[1], swapped.pcs[2]);
  seen.insert(intern(table, swapped));
  EXPECT_EQ(seen.size(), 9u);
  EXPECT_EQ(seen.count(nullptr), 0u);
}

TEST(StackTable, ComparesFramesWhenHashesAreEqual) {
  static StackTable table;
  const InternedStack* a = table.intern(make_stack(1, 4), 42);
  const InternedStack* b = table.intern(make_stack(2, 4), 42);
  EXPECT_NE(a, b);
  EXPECT_EQ(table.intern(make_stack(1, 4), 42), a);
  EXPECT_EQ(table.intern(make_stack(2, 4), 42), b);
}

TEST(StackTable, GrowsWithoutMoving) {
  static StackTable table;
  constexpr uintptr_t kStacks = 100000;
  std::vector<const InternedStack*> made;
  for (uintptr_t i = 0; i < kStacks; i++) made.push_back(intern(table, make_stack(i, 8)));
  EXPECT_EQ(table.size(), kStacks);
  for (uintptr_t i = 0; i < kStacks; i++) ASSERT_EQ(intern(table, make_stack(i, 8)), made[i]);
  EXPECT_EQ(table.size(), kStacks);
}

TEST(StackTable, ThreadsAgree) {
  static StackTable table;
  constexpr uintptr_t kStacks = 5000;
  constexpr int kThreads = 8;
  std::vector<std::vector<const InternedStack*>> made(kThreads);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; t++) {
    threads.emplace_back([&, t] {
      for (uintptr_t i = 0; i < kStacks; i++) made[t].push_back(intern(table, make_stack(i, 6)));
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int t = 1; t < kThreads; t++) EXPECT_EQ(made[t], made[0]);
  EXPECT_EQ(table.size(), kStacks);
}

TEST(StackTable, SurvivesRefusedMemory) {
  static StackTable table;
  std::vector<const InternedStack*> made;
  os::fault_hook = [](long number) -> long { return number == SYS_mmap ? -12 : 0; };
  for (uintptr_t i = 0; i < 100000; i++) {
    const InternedStack* stack = intern(table, make_stack(i, 100));
    if (stack == nullptr) break;
    made.push_back(stack);
  }
  EXPECT_LT(made.size(), 100000u);
  EXPECT_EQ(intern(table, make_stack(200000, 100)), nullptr);
  for (uintptr_t i = 0; i < made.size(); i++) ASSERT_EQ(intern(table, make_stack(i, 100)), made[i]);
  os::fault_hook = nullptr;
  EXPECT_NE(intern(table, make_stack(200000, 100)), nullptr);
}

}  // namespace
}  // namespace seemalloc::profile

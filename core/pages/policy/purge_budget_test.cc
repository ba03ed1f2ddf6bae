#include "core/pages/policy/purge_budget.h"

#include <gtest/gtest.h>

namespace seemalloc::pages {
namespace {

constexpr uint64_t kTick_ns = 50 * kMillisecond_ns;

// Simulates a process that uses this much CPU time in each tick, and purges in steps of one
// millisecond while they are allowed.
uint64_t spent_in(PurgeBudget& budget, int ticks, uint64_t cpu_per_tick_ns, uint64_t* now,
                  uint64_t* cpu) {
  uint64_t spent = 0;
  for (int i = 0; i < ticks; i++) {
    *now += kTick_ns;
    *cpu += cpu_per_tick_ns;
    budget.tick(*now, *cpu);
    for (int batch = 0; batch < 40 && budget.may_spend(); batch++) {
      budget.spent(kMillisecond_ns);
      *cpu += kMillisecond_ns;
      spent += kMillisecond_ns;
    }
  }
  return spent;
}

TEST(PurgeBudget, ABusyProcessSpendsAHundredth) {
  PurgeBudget budget;
  uint64_t now = 1000 * kSecond_ns, cpu = 0;
  spent_in(budget, 10, kTick_ns, &now, &cpu);
  uint64_t spent = spent_in(budget, 2000, kTick_ns, &now, &cpu);
  EXPECT_GE(spent, 900 * kMillisecond_ns);
  EXPECT_LE(spent, 1010 * kMillisecond_ns) << "of 100 s";
}

TEST(PurgeBudget, AnIdleOneAsMuchAsThereIs) {
  PurgeBudget budget;
  uint64_t now = 1000 * kSecond_ns, cpu = 0;
  budget.tick(now, cpu);
  EXPECT_EQ(spent_in(budget, 10, kTick_ns / 50, &now, &cpu), 400 * kMillisecond_ns)
      << "its own time is not the program's";
}

TEST(PurgeBudget, NotMoreThanALittleIsSavedUp) {
  PurgeBudget budget;
  uint64_t now = 1000 * kSecond_ns, cpu = 0;
  for (int i = 0; i < 100000; i++) budget.tick(now += kTick_ns, cpu += kTick_ns);
  uint64_t spent = 0;
  for (; budget.may_spend(); spent += kMillisecond_ns) budget.spent(kMillisecond_ns);
  EXPECT_LE(spent, 21 * kMillisecond_ns);
}

}  // namespace
}  // namespace seemalloc::pages

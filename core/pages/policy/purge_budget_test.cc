#include "core/pages/policy/purge_budget.h"

#include <gtest/gtest.h>

namespace seemalloc::pages {
namespace {

constexpr uint64_t kTickNs = 50 * kMillisecondNs;

// Simulates a process that uses this much CPU time in each tick, and purges in steps of one
// millisecond while they are allowed.
uint64_t spent_in(PurgeBudget& budget, int ticks, uint64_t cpu_per_tick_ns, uint64_t* now,
                  uint64_t* cpu) {
  uint64_t spent = 0;
  for (int i = 0; i < ticks; i++) {
    *now += kTickNs;
    *cpu += cpu_per_tick_ns;
    budget.tick(*now, *cpu);
    for (int batch = 0; batch < 40 && budget.may_spend(); batch++) {
      budget.spent(kMillisecondNs);
      *cpu += kMillisecondNs;
      spent += kMillisecondNs;
    }
  }
  return spent;
}

TEST(PurgeBudget, ABusyProcessSpendsAHundredth) {
  PurgeBudget budget;
  uint64_t now = 1000 * kSecondNs, cpu = 0;
  spent_in(budget, 10, kTickNs, &now, &cpu);
  uint64_t spent = spent_in(budget, 2000, kTickNs, &now, &cpu);
  EXPECT_GE(spent, 900 * kMillisecondNs);
  EXPECT_LE(spent, 1010 * kMillisecondNs) << "of 100 s";
}

TEST(PurgeBudget, AnIdleOneAsMuchAsThereIs) {
  PurgeBudget budget;
  uint64_t now = 1000 * kSecondNs, cpu = 0;
  budget.tick(now, cpu);
  EXPECT_EQ(spent_in(budget, 10, kTickNs / 50, &now, &cpu), 400 * kMillisecondNs)
      << "its own time is not the program's";
}

TEST(PurgeBudget, SavedBudgetIsBounded) {
  PurgeBudget budget;
  uint64_t now = 1000 * kSecondNs, cpu = 0;
  for (int i = 0; i < 100000; i++) budget.tick(now += kTickNs, cpu += kTickNs);
  uint64_t spent = 0;
  for (; budget.may_spend(); spent += kMillisecondNs) budget.spent(kMillisecondNs);
  EXPECT_LE(spent, 21 * kMillisecondNs);
}

}  // namespace
}  // namespace seemalloc::pages

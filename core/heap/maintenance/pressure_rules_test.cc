#include "core/heap/maintenance/pressure_rules.h"

#include <gtest/gtest.h>

namespace seemalloc::heap {
namespace {

constexpr size_t kLimit = 1000 * MiB;

// Some seconds of a process, its helper thread, and the cost of its rounds. A round returns the
// free memory, and there is as much again after `again_ns`.
struct Process {
  PressureRules rules;
  uint64_t now = kSecond_ns;
  size_t limit = kLimit;
  size_t room = 500 * MiB;
  size_t heap_bytes = 500 * MiB;
  size_t soft_limit = 0;
  uint64_t took_ns = kMillisecond_ns;
  unsigned rounds = 0, looks = 0;

  Outlook outlook() const { return Outlook{now, limit, room, heap_bytes, heap_bytes, soft_limit}; }
  void read() { rules.gauge.update({now, limit, limit == SIZE_MAX ? 0 : limit - room, 0, false}); }
  void give(size_t bytes) {
    rounds++;
    now += took_ns;
    rules.gave(outlook(), took_ns, bytes);
  }

  // The helper thread's checks for `ns`. Each round finds the same amount, and the free space stays
  // constant because other processes take it.
  void watch_for(uint64_t ns, size_t each_round_bytes) {
    for (uint64_t end = now + ns; now < end;) {
      looks++;
      read();
      if (rules.gives_by_watch(outlook())) give(each_round_bytes);
      uint64_t wait = rules.next_wait_ns(outlook(), true);
      now += wait < 500 * kMillisecond_ns ? wait : 500 * kMillisecond_ns;
    }
  }
};

TEST(PressureRules, AGroupAtItsLimitForEverCostsATenth) {
  Process p;
  p.room = 0;
  p.watch_for(60 * kSecond_ns, 4 * MiB);  // 2 ms each, including the faults afterwards
  uint64_t cost_ns = p.rounds * 2 * kMillisecond_ns;
  EXPECT_LE(cost_ns, 60 * kSecond_ns / 10 + 2 * kSecond_ns);
  EXPECT_GE(cost_ns, 60 * kSecond_ns / 20) << "it goes on";
}

TEST(PressureRules, AGroupAtItsLimitWithNothingToGiveIsLookedAtTenTimesASecond) {
  Process p;
  p.room = 0;
  p.took_ns = 100 * kMicrosecond_ns;
  p.watch_for(10 * kSecond_ns, 0);
  EXPECT_LE(p.rounds, 110u);
  EXPECT_LE(p.looks, 110u);
}

TEST(PressureRules, ThereIsTheHelperInTimeWhenOthersFillTheGroup) {
  Process p;
  p.rules.gave(p.outlook(), 10 * kMillisecond_ns, 200 * MiB);  // just now
  uint64_t begin = p.now;
  size_t at_first = p.room;
  bool given = false;
  while (!given) {
    size_t taken = (p.now - begin) * 1;  // bytes per ns
    ASSERT_LT(taken, at_first) << "too late";
    p.room = at_first - taken;
    p.read();
    given = p.rules.gives_by_watch(p.outlook());
    p.now += p.rules.next_wait_ns(p.outlook(), true);
  }
}

TEST(PressureRules, WhoFillsTheLastRoomGivesFirst) {
  Process p;
  p.room = 10 * MiB;
  EXPECT_TRUE(p.rules.gives_to_grow(p.outlook(), true));
  p.took_ns = 10 * kSecond_ns;
  p.give(0);
  EXPECT_TRUE(p.rules.gives_to_grow(p.outlook(), true))
      << "whatever it has cost: the alternative is to be killed";
  EXPECT_FALSE(p.rules.gives_by_watch(p.outlook())) << "where nothing grows it waits";
  p.room = 50 * MiB;
  EXPECT_FALSE(p.rules.gives_to_grow(p.outlook(), true)) << "there is some left";
}

TEST(PressureRules, WhileThereIsRoomTheHelperDoesIt) {
  Process p;
  p.limit = 100 * GiB;
  p.room = 9 * GiB;
  p.read();
  ASSERT_TRUE(p.rules.gauge.memory_is_short());
  EXPECT_FALSE(p.rules.gives_to_grow(p.outlook(), true));
  EXPECT_TRUE(p.rules.gives_to_grow(p.outlook(), false)) << "there is none";
  EXPECT_TRUE(p.rules.gives_by_watch(p.outlook()));
  p.room = 400 * MiB;
  EXPECT_TRUE(p.rules.gives_to_grow(p.outlook(), true));
}

// Checks each time the heap has grown by the step that was set. Returns the rounds that this took.
unsigned grow_live(Process& p, size_t by_bytes) {
  size_t next = p.heap_bytes;
  unsigned before = p.rounds;
  for (size_t end = p.heap_bytes + by_bytes; p.heap_bytes < end;
       p.heap_bytes += 64 * KiB, p.now += 64 * kMicrosecond_ns) {
    if (p.heap_bytes < next) continue;
    p.looks++;
    if (p.rules.gives_to_grow(p.outlook(), false)) p.give(0);
    next = p.heap_bytes + PressureRules::next_step(p.outlook());
  }
  return p.rounds - before;
}

TEST(PressureRules, ALiveHeapGrowsAboveItsSoftLimitWithoutAStorm) {
  Process p;
  p.limit = p.room = SIZE_MAX;
  p.soft_limit = 64 * MiB;
  p.heap_bytes = 60 * MiB;
  p.took_ns = 20 * kMillisecond_ns;
  EXPECT_LE(grow_live(p, 10000 * MiB), 15u) << "in 10 s; each takes 20 ms";
  EXPECT_LE(p.looks, 350u) << "steps grow with the heap";
}

TEST(PressureRules, ARoundThatBringsTheHeapBelowItsSoftLimitMayComeAgainAtOnce) {
  Process p;
  p.limit = p.room = SIZE_MAX;
  p.soft_limit = 64 * MiB;
  for (int burst = 0; burst < 10; burst++) {
    p.heap_bytes = 65 * MiB;
    ASSERT_TRUE(p.rules.gives_to_grow(p.outlook(), true));
    p.heap_bytes = 30 * MiB;
    p.give(35 * MiB);
  }
  p.heap_bytes = 65 * MiB;
  p.give(0);
  EXPECT_FALSE(p.rules.gives_to_grow(p.outlook(), true)) << "what is there is live";
  p.heap_bytes = 30 * MiB;
  EXPECT_FALSE(p.rules.gives_to_grow(p.outlook(), true));
  p.heap_bytes = 65 * MiB;
  EXPECT_TRUE(p.rules.gives_to_grow(p.outlook(), true)) << "it had fallen";
}

TEST(PressureRules, StepsFollowTheRoom) {
  Process p;
  EXPECT_EQ(PressureRules::next_step(p.outlook()), 125 * MiB);
  p.room = 2 * MiB;
  EXPECT_EQ(PressureRules::next_step(p.outlook()), 1 * MiB);
  p.soft_limit = p.heap_bytes + 512 * KiB;
  EXPECT_EQ(PressureRules::next_step(p.outlook()), 512 * KiB);
  p.limit = p.room = SIZE_MAX;
  p.soft_limit = 0;
  EXPECT_EQ(PressureRules::next_step(p.outlook()), 1000 * MiB)
      << "without a limit it is a matter of time only";
}

}  // namespace
}  // namespace seemalloc::heap

#include "core/heap/maintenance/pressure_rules.h"

#include <gtest/gtest.h>

namespace seemalloc::heap {
namespace {

constexpr size_t kLimit = 1000 * MiB;

// Some seconds of a process, its helper thread, and the cost of its rounds. A round returns the
// free memory, and there is as much again after `again_ns`.
struct Process {
  PressureRules rules;
  uint64_t now = kSecondNs;
  size_t limit = kLimit;
  size_t room = 500 * MiB;
  size_t heap_bytes = 500 * MiB;
  size_t soft_limit = 0;
  uint64_t took_ns = kMillisecondNs;
  unsigned rounds = 0, looks = 0;

  PressureState pressure_state() const {
    return PressureState{now, limit, room, heap_bytes, heap_bytes, soft_limit};
  }
  void read() { rules.gauge.update({now, limit, limit == SIZE_MAX ? 0 : limit - room, 0, false}); }
  void give(size_t bytes) {
    rounds++;
    now += took_ns;
    rules.round_done(pressure_state(), took_ns, bytes);
  }

  // The helper thread's checks for `ns`. Each round finds the same amount, and the free space stays
  // constant because other processes take it.
  void watch_for(uint64_t ns, size_t each_round_bytes) {
    for (uint64_t end = now + ns; now < end;) {
      looks++;
      read();
      if (rules.must_purge_when_idle(pressure_state())) give(each_round_bytes);
      uint64_t wait = rules.next_wait_ns(pressure_state(), true);
      now += wait < 500 * kMillisecondNs ? wait : 500 * kMillisecondNs;
    }
  }
};

TEST(PressureRules, GroupAlwaysAtItsLimitCostsATenth) {
  Process p;
  p.room = 0;
  p.watch_for(60 * kSecondNs, 4 * MiB);  // 2 ms each, including the faults afterwards
  uint64_t cost_ns = p.rounds * 2 * kMillisecondNs;
  EXPECT_LE(cost_ns, 60 * kSecondNs / 10 + 2 * kSecondNs);
  EXPECT_GE(cost_ns, 60 * kSecondNs / 20) << "the rounds continue";
}

TEST(PressureRules, GroupAtItsLimitWithNothingToReturnIsCheckedTenTimesASecond) {
  Process p;
  p.room = 0;
  p.took_ns = 100 * kMicrosecondNs;
  p.watch_for(10 * kSecondNs, 0);
  EXPECT_LE(p.rounds, 110u);
  EXPECT_LE(p.looks, 110u);
}

TEST(PressureRules, HelperReactsWhenOtherProcessesFillTheGroup) {
  Process p;
  p.rules.round_done(p.pressure_state(), 10 * kMillisecondNs, 200 * MiB);  // just now
  uint64_t begin = p.now;
  size_t at_first = p.room;
  bool given = false;
  while (!given) {
    size_t taken = (p.now - begin) * 1;  // bytes per ns
    ASSERT_LT(taken, at_first) << "too late";
    p.room = at_first - taken;
    p.read();
    given = p.rules.must_purge_when_idle(p.pressure_state());
    p.now += p.rules.next_wait_ns(p.pressure_state(), true);
  }
}

TEST(PressureRules, ThreadThatFillsLastBytesPurgesFirst) {
  Process p;
  p.room = 10 * MiB;
  EXPECT_TRUE(p.rules.must_purge_to_grow(p.pressure_state(), true));
  p.took_ns = 10 * kSecondNs;
  p.give(0);
  EXPECT_TRUE(p.rules.must_purge_to_grow(p.pressure_state(), true))
      << "whatever it has cost: the alternative is to be killed";
  EXPECT_FALSE(p.rules.must_purge_when_idle(p.pressure_state())) << "where nothing grows it waits";
  p.room = 50 * MiB;
  EXPECT_FALSE(p.rules.must_purge_to_grow(p.pressure_state(), true)) << "there is some left";
}

TEST(PressureRules, HelperPurgesWhileMemoryIsLeft) {
  Process p;
  p.limit = 100 * GiB;
  p.room = 9 * GiB;
  p.read();
  ASSERT_TRUE(p.rules.gauge.under_memory_pressure());
  EXPECT_FALSE(p.rules.must_purge_to_grow(p.pressure_state(), true));
  EXPECT_TRUE(p.rules.must_purge_to_grow(p.pressure_state(), false)) << "there is none";
  EXPECT_TRUE(p.rules.must_purge_when_idle(p.pressure_state()));
  p.room = 400 * MiB;
  EXPECT_TRUE(p.rules.must_purge_to_grow(p.pressure_state(), true));
}

// Checks each time the heap has grown by the step that was set. Returns the rounds that this took.
unsigned grow_live(Process& p, size_t by_bytes) {
  size_t next = p.heap_bytes;
  unsigned before = p.rounds;
  for (size_t end = p.heap_bytes + by_bytes; p.heap_bytes < end;
       p.heap_bytes += 64 * KiB, p.now += 64 * kMicrosecondNs) {
    if (p.heap_bytes < next) continue;
    p.looks++;
    if (p.rules.must_purge_to_grow(p.pressure_state(), false)) p.give(0);
    next = p.heap_bytes + PressureRules::next_step(p.pressure_state());
  }
  return p.rounds - before;
}

TEST(PressureRules, ALiveHeapGrowsAboveItsSoftLimitWithoutAStorm) {
  Process p;
  p.limit = p.room = SIZE_MAX;
  p.soft_limit = 64 * MiB;
  p.heap_bytes = 60 * MiB;
  p.took_ns = 20 * kMillisecondNs;
  EXPECT_LE(grow_live(p, 10000 * MiB), 15u) << "in 10 s; each takes 20 ms";
  EXPECT_LE(p.looks, 350u) << "steps grow with the heap";
}

TEST(PressureRules, ARoundThatBringsTheHeapBelowItsSoftLimitMayComeAgainAtOnce) {
  Process p;
  p.limit = p.room = SIZE_MAX;
  p.soft_limit = 64 * MiB;
  for (int burst = 0; burst < 10; burst++) {
    p.heap_bytes = 65 * MiB;
    ASSERT_TRUE(p.rules.must_purge_to_grow(p.pressure_state(), true));
    p.heap_bytes = 30 * MiB;
    p.give(35 * MiB);
  }
  p.heap_bytes = 65 * MiB;
  p.give(0);
  EXPECT_FALSE(p.rules.must_purge_to_grow(p.pressure_state(), true)) << "all bytes are live";
  p.heap_bytes = 30 * MiB;
  EXPECT_FALSE(p.rules.must_purge_to_grow(p.pressure_state(), true));
  p.heap_bytes = 65 * MiB;
  EXPECT_TRUE(p.rules.must_purge_to_grow(p.pressure_state(), true)) << "it had fallen";
}

TEST(PressureRules, StepsFollowTheFreeMemory) {
  Process p;
  EXPECT_EQ(PressureRules::next_step(p.pressure_state()), 125 * MiB);
  p.room = 2 * MiB;
  EXPECT_EQ(PressureRules::next_step(p.pressure_state()), 1 * MiB);
  p.soft_limit = p.heap_bytes + 512 * KiB;
  EXPECT_EQ(PressureRules::next_step(p.pressure_state()), 512 * KiB);
  p.limit = p.room = SIZE_MAX;
  p.soft_limit = 0;
  EXPECT_EQ(PressureRules::next_step(p.pressure_state()), 1000 * MiB)
      << "without a limit it is a matter of time only";
}

}  // namespace
}  // namespace seemalloc::heap

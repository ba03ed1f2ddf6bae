// PurgeBudget: limits the cost of purging to a hundredth of the process's CPU time.
//
// Each tick reads the clocks and adds a hundredth of the CPU time used since the last tick to the
// budget, which is capped at 20 ms. A process that uses less than a twentieth of one CPU is idle:
// then there is no limit, since purging slows nothing down. Pure arithmetic. Threads: any; atomic,
// and a lost update costs about one batch.
#pragma once

#include <atomic>
#include <cstdint>

#include "core/base/units.h"

namespace seemalloc::pages {

class PurgeBudget {
 public:
  static constexpr int64_t kShare = 100;
  static constexpr int64_t kMaxSavedNs = 20 * int64_t{kMillisecondNs};
  static constexpr uint64_t kIdleShare = 20;

  // Takes the clock and the process's CPU time at a tick.
  void tick(uint64_t now_ns, uint64_t cpu_ns) {
    uint64_t before_ns = last_ns_.exchange(now_ns, std::memory_order_relaxed);
    uint64_t wall = before_ns == 0 ? 0 : now_ns - before_ns;
    uint64_t cpu_before = last_cpu_ns_.exchange(cpu_ns, std::memory_order_relaxed);
    uint64_t used = cpu_ns < cpu_before ? 0 : cpu_ns - cpu_before;  // restarts in a forked child
    uint64_t own = spent_ns_.exchange(0, std::memory_order_relaxed);
    used -= own < used ? own : used;
    idle_.store(used * kIdleShare < wall, std::memory_order_relaxed);
    int64_t left = left_ns_.load(std::memory_order_relaxed) + static_cast<int64_t>(used) / kShare;
    left_ns_.store(left < kMaxSavedNs ? left : kMaxSavedNs, std::memory_order_relaxed);
  }

  bool idle() const { return idle_.load(std::memory_order_relaxed); }
  bool may_spend() const { return idle() || left_ns_.load(std::memory_order_relaxed) > 0; }

  void spent(uint64_t ns) {
    spent_ns_.fetch_add(ns, std::memory_order_relaxed);
    if (!idle()) left_ns_.fetch_sub(static_cast<int64_t>(ns), std::memory_order_relaxed);
  }

 private:
  std::atomic<uint64_t> last_ns_{0}, last_cpu_ns_{0}, spent_ns_{0};
  std::atomic<int64_t> left_ns_{kMaxSavedNs};
  std::atomic<bool> idle_{false};
};

}  // namespace seemalloc::pages

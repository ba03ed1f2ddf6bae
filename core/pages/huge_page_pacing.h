// When a growing heap asks for the next huge page: as long as that has paid.
//
// Clearing 2 MiB at once takes a fraction of what 512 small faults do, but a kernel that has to compact memory first, or a
// host that has taken the guest's free memory back, takes many times as much, and it changes from second to second. So
// each huge page is timed. What it took less than small pages would have is earned, what it took more is owed; while
// something is owed there are none, and each region that does without pays a fiftieth of its own cost back. So the loss is
// at most one slow huge page and 2 % of the growth, and it never ends for good.
// Threads: any; atomic, and a lost update is a region more or less.
#pragma once

#include <atomic>
#include <cstdint>

#include "core/base/compiler.h"

namespace seemalloc::pages {

class HugePagePacing {
 public:
  // What small pages for one region take, low: 512 faults of about 1.2 µs.
  static constexpr int64_t kSmallPages_ns = 600'000;
  static constexpr int64_t kPayback_ns = kSmallPages_ns / 50;
  static constexpr int64_t kMostEarned_ns = 5'000'000;
  static constexpr int64_t kMostOwed_ns = 50'000'000;  // 8 GiB of growth

  // A region is about to get memory: may it be a huge page? False counts as a region that does without.
  bool due() {
    if (balance_ns_.load(std::memory_order_relaxed) >= 0) return true;
    add(kPayback_ns);
    return false;
  }

  void delivered(uint64_t took_ns) {
    refusals_.store(0, std::memory_order_relaxed);
    add(kSmallPages_ns - at_most(took_ns));
  }

  // The kernel had none: after that 4, 8, 16 … regions do without.
  void refused(uint64_t took_ns) {
    unsigned before = refusals_.load(std::memory_order_relaxed);
    if (before < kMostDoublings) refusals_.store(before + 1, std::memory_order_relaxed);
    balance_ns_.store(-at_most(took_ns) - (kPayback_ns * 4 << before), std::memory_order_relaxed);
  }

 private:
  static constexpr unsigned kMostDoublings = 8;

  static int64_t at_most(uint64_t took_ns) {
    return took_ns < uint64_t{kMostOwed_ns} ? static_cast<int64_t>(took_ns) : kMostOwed_ns;
  }
  void add(int64_t ns) {
    int64_t sum = balance_ns_.load(std::memory_order_relaxed) + ns;
    if (sum > kMostEarned_ns) sum = kMostEarned_ns;
    if (sum < -kMostOwed_ns) sum = -kMostOwed_ns;
    balance_ns_.store(sum, std::memory_order_relaxed);
  }

  std::atomic<int64_t> balance_ns_{0};
  std::atomic<unsigned> refusals_{0};
};

// The process's, for regions.
extern constinit HugePagePacing huge_page_pacing SEEMALLOC_HIDDEN;

}  // namespace seemalloc::pages

// HugePagePacing: decides when a growing heap requests the next huge page, depending on whether
// past ones were worth their cost.
//
// Clearing 2 MiB at once takes a fraction of the time of 512 small faults. But a kernel that has to
// compact memory first, or a host that has reclaimed the guest's free memory, takes many times as
// long, and this changes from second to second. So each huge page is timed. Time saved against
// small pages is credited, time lost is debited. While the balance is negative no huge page is
// requested, and each region without one credits a fiftieth of its own cost. So the loss is at most
// one slow huge page and 2 % of the growth, and huge pages are never given up for good.
// Threads: any; atomic, and a lost update costs about one region's decision.
#pragma once

#include <atomic>
#include <cstdint>

#include "core/base/compiler.h"

namespace seemalloc::pages {

class HugePagePacing {
 public:
  // Time that small pages take for one region, a low estimate: 512 faults of about 1.2 µs.
  static constexpr int64_t kSmallPages_ns = 600'000;
  static constexpr int64_t kPayback_ns = kSmallPages_ns / 50;
  static constexpr int64_t kMostEarned_ns = 5'000'000;
  static constexpr int64_t kMostOwed_ns = 50'000'000;  // 8 GiB of growth

  // A region is about to get memory: may it use a huge page? False counts as a region without one.
  bool due() {
    if (balance_ns_.load(std::memory_order_relaxed) >= 0) return true;
    add(kPayback_ns);
    return false;
  }

  void delivered(uint64_t took_ns) {
    refusals_.store(0, std::memory_order_relaxed);
    add(kSmallPages_ns - at_most(took_ns));
  }

  // The kernel had no huge page. The next 4, 8, 16 … regions do without.
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

// The process's instance, used for regions.
extern constinit HugePagePacing huge_page_pacing SEEMALLOC_HIDDEN;

}  // namespace seemalloc::pages

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
  static constexpr int64_t kSmallPagesNs = 600'000;
  static constexpr int64_t kCreditPerRegionNs = kSmallPagesNs / 50;
  static constexpr int64_t kMaxCreditNs = 5'000'000;
  static constexpr int64_t kMaxDebtNs = 50'000'000;  // 8 GiB of growth

  // A region is about to get memory: may it use a huge page? False counts as a region without one.
  bool due() {
    if (balance_ns_.load(std::memory_order_relaxed) >= 0) return true;
    add(kCreditPerRegionNs);
    return false;
  }

  void delivered(uint64_t took_ns) {
    refusals_.store(0, std::memory_order_relaxed);
    add(kSmallPagesNs - clamped(took_ns));
  }

  // The kernel had no huge page. The next 4, 8, 16 … regions do without.
  void refused(uint64_t took_ns) {
    unsigned before = refusals_.load(std::memory_order_relaxed);
    if (before < kMaxDoublings) refusals_.store(before + 1, std::memory_order_relaxed);
    balance_ns_.store(-clamped(took_ns) - (kCreditPerRegionNs * 4 << before),
                      std::memory_order_relaxed);
  }

 private:
  static constexpr unsigned kMaxDoublings = 8;

  static int64_t clamped(uint64_t took_ns) {
    return took_ns < uint64_t{kMaxDebtNs} ? static_cast<int64_t>(took_ns) : kMaxDebtNs;
  }
  void add(int64_t ns) {
    int64_t sum = balance_ns_.load(std::memory_order_relaxed) + ns;
    if (sum > kMaxCreditNs) sum = kMaxCreditNs;
    if (sum < -kMaxDebtNs) sum = -kMaxDebtNs;
    balance_ns_.store(sum, std::memory_order_relaxed);
  }

  std::atomic<int64_t> balance_ns_{0};
  std::atomic<unsigned> refusals_{0};
};

// The process's instance, used for regions.
extern constinit HugePagePacing huge_page_pacing SEEMALLOC_HIDDEN;

}  // namespace seemalloc::pages

// PurgeDelay: decides how long freed memory is kept before it is purged, from the fate of memory
// purged earlier.
//
// Purged memory that is reused costs a system call and a fault per page (up to 20 % of a server's
// CPU time, by one report); free memory that is never reused costs its size for as long as it is
// kept. So the share of purged memory that is soon reused (refaults) is measured. More than a fifth
// doubles the delay, unless refaults cost less than a 400th of the process's CPU time
// (docs/decisions/0064). Less than a twentieth in five consecutive windows halves it.
// A window is as long as the delay. A window in which hardly anything was purged shows only that a
// delay that has grown is not needed. Times and bytes come from the caller: pure arithmetic.
// Threads: any; atomic, and a lost update costs about one window.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "core/base/units.h"

namespace seemalloc::pages {

class PurgeDelay {
 public:
  static constexpr uint64_t kFirstNs = 1000 * kMillisecondNs;
  static constexpr uint64_t kMinNs = 250 * kMillisecondNs;
  static constexpr uint64_t kMaxNs = 30 * kSecondNs;
  static constexpr size_t kMinMeasuredBytes = 1 * MiB;
  static constexpr unsigned kQuietWindows = 5;
  // Cost of a refault: the fault, clearing the page, and the page's share of the call that purged
  // it.
  static constexpr uint64_t kCostOfAPageNs = 1000;
  static constexpr uint64_t kNegligibleCostShare = 400;

  uint64_t ns() const { return delay_ns_.load(std::memory_order_relaxed); }

  // A window has ended in which `purged_bytes` were purged, `refaulted_bytes` purged in this window
  // or shortly before were reused, and the process used `cpu_ns` of CPU time.
  void window_ended(size_t purged_bytes, size_t refaulted_bytes, uint64_t cpu_ns) {
    uint64_t purged = add_to_decaying_sum(purged_bytes_, purged_bytes),
             refaulted = add_to_decaying_sum(refaulted_bytes_, refaulted_bytes);
    uint64_t cost_ns = refaulted / kPageBytes * kCostOfAPageNs,
             cheap_ns = add_to_decaying_sum(cpu_ns_, cpu_ns) / kNegligibleCostShare;
    if (purged >= kMinMeasuredBytes && refaulted > purged / 5 && cost_ns > cheap_ns)
      return set(ns() * 2);
    bool quiet = purged >= kMinMeasuredBytes ? refaulted < purged / 20 : ns() > kFirstNs;
    unsigned windows = quiet ? quiet_windows_.load(std::memory_order_relaxed) + 1 : 0;
    quiet_windows_.store(windows, std::memory_order_relaxed);
    if (windows == kQuietWindows) set(ns() / 2);
  }

 private:
  // Refaults come later than the purges that they belong to, so past windows count by half, a
  // quarter, …
  static uint64_t add_to_decaying_sum(std::atomic<uint64_t>& sum, uint64_t more) {
    uint64_t now = sum.load(std::memory_order_relaxed) / 2 + more;
    sum.store(now, std::memory_order_relaxed);
    return now;
  }
  // Measurements made with another delay do not apply to the new one.
  void set(uint64_t ns) {
    delay_ns_.store(ns < kMinNs ? kMinNs : ns > kMaxNs ? kMaxNs : ns, std::memory_order_relaxed);
    quiet_windows_.store(0, std::memory_order_relaxed);
    purged_bytes_.store(0, std::memory_order_relaxed);
    refaulted_bytes_.store(0, std::memory_order_relaxed);
    cpu_ns_.store(0, std::memory_order_relaxed);
  }

  std::atomic<uint64_t> delay_ns_{kFirstNs};
  std::atomic<unsigned> quiet_windows_{0};
  std::atomic<uint64_t> purged_bytes_{0}, refaulted_bytes_{0}, cpu_ns_{0};
};

}  // namespace seemalloc::pages

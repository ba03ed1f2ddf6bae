// PurgeDelay: how long freed memory is kept before it is given back, by what became of what was.
//
// Memory that goes back and is wanted again costs a system call and a fault per page (20 % of a server's work was once reported),
// memory that nobody wants costs as long as it is kept. So it is counted how much of what was given back is handed out
// again soon (refaults): more than a fifth, and the delay is doubled, unless that costs the process less than a 400th of its processor
// time (docs/decisions/0064); less than a twentieth for five windows, and it is halved.
// A window is as long as the delay. One in which hardly anything went back says nothing, but that a delay which has
// grown is not needed. Times and bytes come from the caller: pure arithmetic.
// Threads: any; atomic, and a lost update is a window less.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "core/base/units.h"

namespace seemalloc::pages {

class PurgeDelay {
 public:
  static constexpr uint64_t kFirst_ns = 1000 * kMillisecond_ns;
  static constexpr uint64_t kShortest_ns = 250 * kMillisecond_ns;
  static constexpr uint64_t kLongest_ns = 30 * kSecond_ns;
  static constexpr size_t kTooLittle_bytes = 1 * MiB;
  static constexpr unsigned kQuietWindows = 5;
  // Of a refault: the fault, with the page made zero, and its share of the call that gave it back.
  static constexpr uint64_t kCostOfAPage_ns = 1000;
  static constexpr uint64_t kCheapShare = 400;

  uint64_t ns() const { return delay_ns_.load(std::memory_order_relaxed); }

  // A window has ended, in which so much was given back and so much was wanted again, of what went in it or not long before, and the
  // process used so much processor time.
  void window_ended(size_t purged_bytes, size_t refaulted_bytes, uint64_t cpu_ns) {
    uint64_t purged = remember(purged_bytes_, purged_bytes), refaulted = remember(refaulted_bytes_, refaulted_bytes);
    uint64_t cost_ns = refaulted / kPageBytes * kCostOfAPage_ns, cheap_ns = remember(cpu_ns_, cpu_ns) / kCheapShare;
    if (purged >= kTooLittle_bytes && refaulted > purged / 5 && cost_ns > cheap_ns) return set(ns() * 2);
    bool quiet = purged >= kTooLittle_bytes ? refaulted < purged / 20 : ns() > kFirst_ns;
    unsigned windows = quiet ? quiet_windows_.load(std::memory_order_relaxed) + 1 : 0;
    quiet_windows_.store(windows, std::memory_order_relaxed);
    if (windows == kQuietWindows) set(ns() / 2);
  }

 private:
  // Refaults come later than what they belong to: the past counts half, a quarter, …
  static uint64_t remember(std::atomic<uint64_t>& sum, uint64_t more) {
    uint64_t now = sum.load(std::memory_order_relaxed) / 2 + more;
    sum.store(now, std::memory_order_relaxed);
    return now;
  }
  // What was learned with another delay does not count for this one.
  void set(uint64_t ns) {
    delay_ns_.store(ns < kShortest_ns ? kShortest_ns : ns > kLongest_ns ? kLongest_ns : ns, std::memory_order_relaxed);
    quiet_windows_.store(0, std::memory_order_relaxed);
    purged_bytes_.store(0, std::memory_order_relaxed);
    refaulted_bytes_.store(0, std::memory_order_relaxed);
    cpu_ns_.store(0, std::memory_order_relaxed);
  }

  std::atomic<uint64_t> delay_ns_{kFirst_ns};
  std::atomic<unsigned> quiet_windows_{0};
  std::atomic<uint64_t> purged_bytes_{0}, refaulted_bytes_{0}, cpu_ns_{0};
};

}  // namespace seemalloc::pages

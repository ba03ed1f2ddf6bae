// Collapse: asks the kernel to move dense regions of a large heap from small pages onto huge pages
// (MADV_COLLAPSE, Linux 6.1).
//
// A heap grows by huge pages while the kernel delivers them quickly (huge_page_pacing.h), and
// purging splits them. A region that has small pages for one of these reasons and stays dense is
// worth a copy of 2 MiB. A region qualifies when
//  1. at least 95 % of its pages are in use, have been in use at every check for kDenseForNs, and
//     hardly any were freed meanwhile;
//  2. as much of its memory is resident and not shared: spans that are never written stay as they
//     are, and memory shared with a forked child is not copied;
//  3. heap_limit has room for the remaining pages, which become free memory, and other limits are
//     far away. The purge leaves these pages alone until the region is no longer dense
//     (Region::resting).
// Each attempt doubles the wait before the next attempt for this region. A refusal by the kernel
// delays all regions. Caller: the helper thread's tick, within the purge budget and while the
// program works. So the program's threads wait only for the kernel's own lock. Threads: one at a
// time. No lock is held across a system call. The region stays mapped (Region::collapsing), and its
// pages are allocated and freed meanwhile, since their contents do not change. The purge skips it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/base/units.h"

namespace seemalloc::pages {

struct Shard;

// Ten halves of the initial purge delay.
inline constexpr uint64_t kDenseForNs = 5 * kSecondNs;

// Decides when the next region may be tried, based on the outcome of earlier attempts.
class CollapsePacing {
 public:
  static constexpr uint64_t kFirstWaitNs = 1 * kSecondNs;
  static constexpr uint64_t kMaxWaitNs = 64 * kSecondNs;
  // When the system's setting forbids huge pages, it is read again after this time.
  static constexpr uint64_t kForbiddenWaitNs = 30 * kSecondNs;
  static constexpr uint64_t kBetweenRoundsNs = 400 * kMillisecondNs;

  bool due(uint64_t now_ns) const { return !unsupported_ && now_ns >= next_ns_; }
  void begin_round(uint64_t now_ns) { next_ns_ = now_ns + kBetweenRoundsNs; }
  void note_success() {
    supported_ = true;
    wait_ns_ = kFirstWaitNs;
  }
  void refused(int error, uintptr_t region, uint64_t now_ns);
  void disabled_by_system(uint64_t now_ns) { next_ns_ = now_ns + kForbiddenWaitNs; }

 private:
  // If this many different regions fail with EINVAL before any succeeded, the kernel does not
  // support the call.
  static constexpr unsigned kInvalidRegions = 3;

  bool supported_ = false;      // the kernel has succeeded once
  bool unsupported_ = false;    // the kernel does not support it
  unsigned invalid_count_ = 0;  // entries in invalid_regions_
  uintptr_t invalid_regions_[kInvalidRegions] = {};
  uint64_t wait_ns_ = kFirstWaitNs;
  uint64_t next_ns_ = 0;
};

// Moves a few regions, if it is time. The clock is coarse_monotonic_ns(). Requires: no lock held.
void collapse_dense_regions(uint64_t now_ns);

// In a forked child, with the shard's lock held: ends the move that was under way, whether it
// completed or not.
void end_collapses_in_child_locked(Shard& shard);
// In a forked child: closes files. Makes system calls.
void close_collapse_file_in_child();

}  // namespace seemalloc::pages

// Collapse: dense regions of a large heap that have only small pages are moved onto huge pages, by the kernel (MADV_COLLAPSE,
// Linux 6.1).
//
// A heap grows by huge pages while the kernel gives them quickly (huge_page_pacing.h), and a purge takes them apart. What has
// small pages for these reasons and stays dense is worth a copy of 2 MiB. A region qualifies when
//  1. at least 95 % of its pages are in use, have been so for kDenseFor_ns whenever it was looked at, and hardly any
//     of them was freed meanwhile;
//  2. as much of its memory is there and shared with nobody: spans that nobody writes to stay as they are, and what a forked
//     child has as well is not copied;
//  3. heap_limit has room for the rest, which becomes free memory; other limits are far. The purge leaves it until the region is
//     not dense any more (Region::resting).
// An attempt makes the next one wait twice as long for this region; what the kernel refuses makes all of them wait.
// Who calls: the helper's tick, so that no thread of the program waits but for the kernel's own lock, within the purge budget
// and while the program works. Threads: one at a time. No lock is held across a system call; the region stays mapped (Region::
// collapsing), and its pages are handed out and freed meanwhile: their contents do not change. The purge passes it over.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/base/units.h"

namespace seemalloc::pages {

struct Shard;

// Ten half purge delays, of the first delay.
inline constexpr uint64_t kDenseFor_ns = 5 * kSecond_ns;

// When the next region may be tried, by what became of those before.
class CollapsePacing {
 public:
  static constexpr uint64_t kFirstWait_ns = 1 * kSecond_ns;
  static constexpr uint64_t kLongestWait_ns = 64 * kSecond_ns;
  // The system's setting is no: it is asked for again after this.
  static constexpr uint64_t kForbiddenWait_ns = 30 * kSecond_ns;
  static constexpr uint64_t kBetweenRounds_ns = 400 * kMillisecond_ns;

  bool due(uint64_t now_ns) const { return !unknown_ && now_ns >= next_ns_; }
  void begin_round(uint64_t now_ns) { next_ns_ = now_ns + kBetweenRounds_ns; }
  void done() {
    known_ = true;
    wait_ns_ = kFirstWait_ns;
  }
  void refused(int error, uintptr_t region, uint64_t now_ns);
  void forbidden(uint64_t now_ns) { next_ns_ = now_ns + kForbiddenWait_ns; }

 private:
  // So many regions for which the kernel says EINVAL, before it has done any, are no accident of theirs.
  static constexpr unsigned kInvalidRegions = 3;

  bool known_ = false;    // the kernel has done it once
  bool unknown_ = false;  // it cannot
  unsigned invalid_ = 0;  // of those regions, how many so far
  uintptr_t invalid_regions_[kInvalidRegions] = {};
  uint64_t wait_ns_ = kFirstWait_ns;
  uint64_t next_ns_ = 0;
};

// Moves a few regions, if it is time. The clock is coarse_monotonic_ns(). Requires: no lock held.
void collapse_dense_regions(uint64_t now_ns);

// In a forked child, with the shard's lock held: what was under way is over, done or not.
void end_collapsing_all_locked(Shard& shard);
// In a forked child: closes files. Makes system calls.
void forget_collapse_in_child();

}  // namespace seemalloc::pages

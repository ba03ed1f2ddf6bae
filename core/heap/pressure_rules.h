// PressureRules: what whoever looks at the memory is to do: whether to give everything free back, and when to look again.
//
// Pure arithmetic; times and bytes come from the caller. Who calls: core/heap/pressure.cc, one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/base/units.h"
#include "core/heap/pressure_gauge.h"

namespace seemalloc::heap {

// What was found.
struct Outlook {
  uint64_t now_ns;
  size_t limit = SIZE_MAX;  // of the cgroup; SIZE_MAX: none
  size_t room = SIZE_MAX;   // below it; SIZE_MAX: there is no limit
  size_t heap_bytes = 0;    // that stand behind the heap
  size_t own_bytes = 0;     // with our records: what the soft limit is compared with
  size_t soft_limit = 0;    // 0: none
};

class PressureRules {
 public:
  static constexpr size_t kLeastStep_bytes = 1 * MiB;
  static constexpr size_t kLargestStep_bytes = 256 * MiB;
  static constexpr size_t kMostScarce_bytes = 512 * MiB;
  // The helper looks before memory can have been filled that fast.
  static constexpr uint64_t kFill_bytes_per_ns = 2;
  static constexpr uint64_t kShortestWait_ns = 5 * kMillisecond_ns;
  static constexpr uint64_t kShortestIdleWait_ns = 50 * kMillisecond_ns;  // nothing is free yet
  static constexpr uint64_t kRetry_ns = 20 * kMillisecond_ns;

  PressureGauge gauge;
  PurgePace pace;

  // Less room than this, and what is kept goes whatever it costs.
  static size_t scarce_room(size_t limit) { return limit / 16 < kMostScarce_bytes ? limit / 16 : kMostScarce_bytes; }

  // The heap is about to grow: in the thread that allocates. What it fills it must give back first; what can wait, and what would
  // not help, is left to the pace, or to the helper.
  bool gives_to_grow(const Outlook& o, bool helper_watches) {
    if (is_well_below_soft_limit(o)) soft_rounds_help_ = true;
    if (is_above_soft_limit(o) && (soft_rounds_help_ || pace.due(o.now_ns))) return true;
    if (is_scarce(o)) return o.room < scarce_room(o.limit) / 4 || pace.due_when_scarce(o.now_ns);
    return !helper_watches && gauge.memory_is_short() && pace.due(o.now_ns);
  }

  // Nothing of ours grows: memory may stay as it is for ever.
  bool gives_by_watch(const Outlook& o) const {
    if (is_scarce(o) && pace.due_when_scarce(o.now_ns)) return true;
    return (gauge.memory_is_short() || is_above_soft_limit(o)) && pace.due(o.now_ns);
  }

  // A round took so long and gave so much back.
  void gave(const Outlook& after, uint64_t took_ns, size_t bytes) {
    pace.done(after.now_ns, took_ns, bytes);
    soft_rounds_help_ = after.soft_limit == 0 || is_well_below_soft_limit(after);
  }

  // How much the heap may grow until the next look.
  static size_t next_step(const Outlook& o) {
    bool limited = o.limit != SIZE_MAX;
    size_t step = limited ? o.room / 4 : 2 * o.heap_bytes;
    if (limited && step > kLargestStep_bytes) step = kLargestStep_bytes;
    step = at_least_a_step(step);
    if (o.soft_limit == 0) return step;
    bool below = o.own_bytes < o.soft_limit;
    size_t left = below ? o.soft_limit - o.own_bytes : at_least_a_step(o.own_bytes / 64);
    return left < step ? left : step;
  }

  // When the helper looks again. `dirty`: there is something to be given back.
  uint64_t next_wait_ns(const Outlook& o, bool dirty) const {
    uint64_t paced = UINT64_MAX;
    if (dirty && gauge.memory_is_short()) paced = longer(minus(pace.next_ns(), o.now_ns), kRetry_ns);
    // A heap of some size may soon be larger, and free; nobody tells us.
    if (o.limit == SIZE_MAX || (!dirty && o.heap_bytes < o.limit / 16)) return paced;
    uint64_t filled = minus(o.room, scarce_room(o.limit)) / kFill_bytes_per_ns;
    filled = longer(filled, dirty ? kShortestWait_ns : kShortestIdleWait_ns);
    filled = longer(filled, minus(pace.next_scarce_ns(), o.now_ns));  // nothing would be given back before
    return filled < paced ? filled : paced;
  }

 private:
  static uint64_t longer(uint64_t a, uint64_t b) { return a > b ? a : b; }
  static size_t at_least_a_step(size_t bytes) { return bytes < kLeastStep_bytes ? kLeastStep_bytes : bytes; }

  static bool is_scarce(const Outlook& o) { return o.limit != SIZE_MAX && o.room < scarce_room(o.limit); }
  static bool is_above_soft_limit(const Outlook& o) { return o.soft_limit != 0 && o.own_bytes > o.soft_limit; }
  // By so much that growing up to it again costs about what a round does.
  static bool is_well_below_soft_limit(const Outlook& o) {
    return o.soft_limit != 0 && o.own_bytes + at_least_a_step(o.soft_limit / 16) <= o.soft_limit;
  }

  bool soft_rounds_help_ = true;  // what went brought the heap well below the soft limit: the next round may do so, too
};

}  // namespace seemalloc::heap

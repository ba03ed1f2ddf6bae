// PressureRules: decides, after a check of the memory, whether to return all free memory and when
// to check again.
//
// Pure arithmetic; times and bytes come from the caller. Caller: core/heap/maintenance/pressure.cc,
// one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/base/units.h"
#include "core/heap/maintenance/pressure_gauge.h"

namespace seemalloc::heap {

// The state found by a check.
struct Outlook {
  uint64_t now_ns;
  size_t limit = SIZE_MAX;  // of the cgroup; SIZE_MAX: none
  size_t room = SIZE_MAX;   // free space below the limit; SIZE_MAX: there is no limit
  size_t heap_bytes = 0;    // bytes of memory behind the heap
  size_t own_bytes = 0;     // with our own records: the soft limit is compared with this
  size_t soft_limit = 0;    // 0: none
};

class PressureRules {
 public:
  static constexpr size_t kLeastStep_bytes = 1 * MiB;
  static constexpr size_t kLargestStep_bytes = 256 * MiB;
  static constexpr size_t kMostScarce_bytes = 512 * MiB;
  // The helper thread checks before memory can have been filled at this rate.
  static constexpr uint64_t kFill_bytes_per_ns = 2;
  static constexpr uint64_t kShortestWait_ns = 5 * kMillisecond_ns;
  // No memory is free yet.
  static constexpr uint64_t kShortestIdleWait_ns = 50 * kMillisecond_ns;
  static constexpr uint64_t kRetry_ns = 20 * kMillisecond_ns;

  PressureGauge gauge;
  PurgePace pace;

  // Below this free space cached memory is returned whatever that costs.
  static size_t scarce_room(size_t limit) {
    return limit / 16 < kMostScarce_bytes ? limit / 16 : kMostScarce_bytes;
  }

  // The heap is about to grow; called in the thread that allocates. Memory that it is about to fill
  // must be returned first. Work that can wait, or would not help, is left to the pace or to the
  // helper thread.
  bool gives_to_grow(const Outlook& o, bool helper_watches) {
    if (is_well_below_soft_limit(o)) soft_rounds_help_ = true;
    if (is_above_soft_limit(o) && (soft_rounds_help_ || pace.due(o.now_ns))) return true;
    if (is_scarce(o)) return o.room < scarce_room(o.limit) / 4 || pace.due_when_scarce(o.now_ns);
    return !helper_watches && gauge.memory_is_short() && pace.due(o.now_ns);
  }

  // The heap does not grow: memory may stay as it is for ever.
  bool gives_by_watch(const Outlook& o) const {
    if (is_scarce(o) && pace.due_when_scarce(o.now_ns)) return true;
    return (gauge.memory_is_short() || is_above_soft_limit(o)) && pace.due(o.now_ns);
  }

  // Records a round's duration and the bytes that it returned.
  void gave(const Outlook& after, uint64_t took_ns, size_t bytes) {
    pace.done(after.now_ns, took_ns, bytes);
    soft_rounds_help_ = after.soft_limit == 0 || is_well_below_soft_limit(after);
  }

  // How much the heap may grow until the next check.
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

  // When the helper thread checks again. `dirty`: there is memory to return.
  uint64_t next_wait_ns(const Outlook& o, bool dirty) const {
    uint64_t paced = UINT64_MAX;
    if (dirty && gauge.memory_is_short())
      paced = longer(minus(pace.next_ns(), o.now_ns), kRetry_ns);
    // A heap of some size may soon be larger, and free; nothing notifies us.
    if (o.limit == SIZE_MAX || (!dirty && o.heap_bytes < o.limit / 16)) return paced;
    uint64_t filled = minus(o.room, scarce_room(o.limit)) / kFill_bytes_per_ns;
    filled = longer(filled, dirty ? kShortestWait_ns : kShortestIdleWait_ns);
    // Nothing would be returned before.
    filled = longer(filled, minus(pace.next_scarce_ns(), o.now_ns));
    return filled < paced ? filled : paced;
  }

 private:
  static uint64_t longer(uint64_t a, uint64_t b) { return a > b ? a : b; }
  static size_t at_least_a_step(size_t bytes) {
    return bytes < kLeastStep_bytes ? kLeastStep_bytes : bytes;
  }

  static bool is_scarce(const Outlook& o) {
    return o.limit != SIZE_MAX && o.room < scarce_room(o.limit);
  }
  static bool is_above_soft_limit(const Outlook& o) {
    return o.soft_limit != 0 && o.own_bytes > o.soft_limit;
  }
  // True if the heap is below the soft limit by so large a step that growing up to it again costs
  // about as much as a round.
  static bool is_well_below_soft_limit(const Outlook& o) {
    return o.soft_limit != 0 && o.own_bytes + at_least_a_step(o.soft_limit / 16) <= o.soft_limit;
  }

  // The last round brought the heap well below the soft limit, so the next one may too.
  bool soft_rounds_help_ = true;
};

}  // namespace seemalloc::heap

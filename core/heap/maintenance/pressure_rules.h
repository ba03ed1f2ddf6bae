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
struct PressureState {
  uint64_t now_ns;
  size_t limit = SIZE_MAX;  // of the cgroup; SIZE_MAX: none
  size_t room = SIZE_MAX;   // free space below the limit; SIZE_MAX: there is no limit
  size_t heap_bytes = 0;    // bytes of memory behind the heap
  size_t own_bytes = 0;     // with our own records: the soft limit is compared with this
  size_t soft_limit = 0;    // 0: none
};

class PressureRules {
 public:
  static constexpr size_t kMinStepBytes = 1 * MiB;
  static constexpr size_t kLargestStepBytes = 256 * MiB;
  static constexpr size_t kMaxScarceBytes = 512 * MiB;
  // The helper thread checks before memory can have been filled at this rate.
  static constexpr uint64_t kFillBytesPerNs = 2;
  static constexpr uint64_t kMinWaitNs = 5 * kMillisecondNs;
  // No memory is free yet.
  static constexpr uint64_t kMinIdleWaitNs = 50 * kMillisecondNs;
  static constexpr uint64_t kRetryNs = 20 * kMillisecondNs;

  PressureGauge gauge;
  PurgePace pace;

  // Below this free space cached memory is returned whatever that costs.
  static size_t scarce_room(size_t limit) {
    return limit / 16 < kMaxScarceBytes ? limit / 16 : kMaxScarceBytes;
  }

  // The heap is about to grow; called in the thread that allocates. Memory that it is about to fill
  // must be returned first. Work that can wait, or would not help, is left to the pace or to the
  // helper thread.
  bool must_purge_to_grow(const PressureState& o, bool helper_watches) {
    if (is_well_below_soft_limit(o)) soft_rounds_help_ = true;
    if (is_above_soft_limit(o) && (soft_rounds_help_ || pace.due(o.now_ns))) return true;
    if (is_scarce(o)) return o.room < scarce_room(o.limit) / 4 || pace.due_when_scarce(o.now_ns);
    return !helper_watches && gauge.under_memory_pressure() && pace.due(o.now_ns);
  }

  // The heap does not grow: memory may stay as it is for ever.
  bool must_purge_when_idle(const PressureState& o) const {
    if (is_scarce(o) && pace.due_when_scarce(o.now_ns)) return true;
    return (gauge.under_memory_pressure() || is_above_soft_limit(o)) && pace.due(o.now_ns);
  }

  // Records a round's duration and the bytes that it returned.
  void round_done(const PressureState& after, uint64_t took_ns, size_t bytes) {
    pace.done(after.now_ns, took_ns, bytes);
    soft_rounds_help_ = after.soft_limit == 0 || is_well_below_soft_limit(after);
  }

  // How much the heap may grow until the next check.
  static size_t next_step(const PressureState& o) {
    bool limited = o.limit != SIZE_MAX;
    size_t step = limited ? o.room / 4 : 2 * o.heap_bytes;
    if (limited && step > kLargestStepBytes) step = kLargestStepBytes;
    step = at_least_a_step(step);
    if (o.soft_limit == 0) return step;
    bool below = o.own_bytes < o.soft_limit;
    size_t left = below ? o.soft_limit - o.own_bytes : at_least_a_step(o.own_bytes / 64);
    return left < step ? left : step;
  }

  // When the helper thread checks again. `dirty`: there is memory to return.
  uint64_t next_wait_ns(const PressureState& o, bool dirty) const {
    uint64_t paced = UINT64_MAX;
    if (dirty && gauge.under_memory_pressure())
      paced = longer(saturating_subtract(pace.next_ns(), o.now_ns), kRetryNs);
    // A heap of some size may soon be larger, and free; nothing notifies us.
    if (o.limit == SIZE_MAX || (!dirty && o.heap_bytes < o.limit / 16)) return paced;
    uint64_t filled = saturating_subtract(o.room, scarce_room(o.limit)) / kFillBytesPerNs;
    filled = longer(filled, dirty ? kMinWaitNs : kMinIdleWaitNs);
    // Nothing would be returned before.
    filled = longer(filled, saturating_subtract(pace.next_scarce_ns(), o.now_ns));
    return filled < paced ? filled : paced;
  }

 private:
  static uint64_t longer(uint64_t a, uint64_t b) { return a > b ? a : b; }
  static size_t at_least_a_step(size_t bytes) {
    return bytes < kMinStepBytes ? kMinStepBytes : bytes;
  }

  static bool is_scarce(const PressureState& o) {
    return o.limit != SIZE_MAX && o.room < scarce_room(o.limit);
  }
  static bool is_above_soft_limit(const PressureState& o) {
    return o.soft_limit != 0 && o.own_bytes > o.soft_limit;
  }
  // True if the heap is below the soft limit by so large a step that growing up to it again costs
  // about as much as a round.
  static bool is_well_below_soft_limit(const PressureState& o) {
    return o.soft_limit != 0 && o.own_bytes + at_least_a_step(o.soft_limit / 16) <= o.soft_limit;
  }

  // The last round brought the heap well below the soft limit, so the next one may too.
  bool soft_rounds_help_ = true;
};

}  // namespace seemalloc::heap

// Test build only: makes system calls fail and lets time pass as a test requests, so that every
// failure path is reached.
#pragma once

#include <atomic>

#include "core/os/kernel/clock.h"
#include "core/os/kernel/syscall.h"

namespace seemalloc::os {

// While it exists, calls of one number fail: every `every`-th one (with every = 1: all), after
// `skip` successful ones. Refusing mmap means refusing memory: os::map_after, which then requests
// memory by mremap, is refused as well, but not counted.
class FailCalls {
 public:
  FailCalls(long number, long error, unsigned every = 1, unsigned skip = 0) {
    mappings_may_grow = false;
    target = number;
    answer = -error;
    period = every;
    left = skip;
    refused = 0;
    seen = 0;
    fault_hook = hook;
  }
  ~FailCalls() { fault_hook = nullptr; }
  FailCalls(const FailCalls&) = delete;
  FailCalls& operator=(const FailCalls&) = delete;
  unsigned refusals() const { return refused; }

 protected:
  static inline std::atomic<bool> mappings_may_grow;

 private:
  static long hook(long number) {
    bool in_its_place = mmap_refused && number == SYS_mremap && !mappings_may_grow;
    mmap_refused = false;
    if (in_its_place) return answer;
    if (number != target) return 0;
    if (left != 0) {
      left--;
      return 0;
    }
    if (++seen % period.load() != 0) return 0;
    refused++;
    mmap_refused = number == SYS_mmap;
    return answer;
  }
  static inline thread_local bool mmap_refused = false;
  static inline std::atomic<long> target, answer;
  static inline std::atomic<unsigned> period, left, refused, seen;
};

// While it exists, no new mapping is granted (vm.max_map_count), but existing ones may grow.
class FailNewMappings : public FailCalls {
 public:
  FailNewMappings() : FailCalls(SYS_mmap, 12) { mappings_may_grow = true; }  // ENOMEM
};

// While it exists, the first call of one number is not made: it returns this answer instead, for
// example a descriptor of the test.
class AnswerCall {
 public:
  AnswerCall(long number, long answer) {
    target = number;
    next = answer;
    fault_hook = hook;
  }
  ~AnswerCall() { fault_hook = nullptr; }
  AnswerCall(const AnswerCall&) = delete;
  AnswerCall& operator=(const AnswerCall&) = delete;
  bool was_called() const { return next == 0; }

 private:
  static long hook(long number) { return number == target ? next.exchange(0) : 0; }
  static inline std::atomic<long> target, next;
};

// The time that the monotonic clocks show; 0: the kernel's time. With a test clock, the CPU time
// clocks show test_cpu_ns, which does not advance automatically.
extern std::atomic<uint64_t> test_clock_ns, test_cpu_ns;

// From the first call on, the clock advances only by advance_test_clock(), for the rest of the
// process, since time must not go back. So a busy machine does not affect the test.
inline void advance_test_clock(uint64_t ns) {
  uint64_t now = test_clock_ns.load();
  if (now == 0) now = monotonic_ns();
  test_clock_ns = now + ns;
}

}  // namespace seemalloc::os

// Test build only: refuses system calls as a test asks, so that every failure path is reached, and has time pass as it asks.
#pragma once

#include <atomic>

#include "core/os/os.h"
#include "core/os/syscall.h"

namespace seemalloc::os {

// While alive, calls of one number fail: each `every`-th one, or, with every = 1, all of them, after `skip` good ones. To refuse mmap
// is to refuse memory: then os::map_behind, which asks for memory by mremap, is refused as well, and not counted.
class RefuseCalls {
 public:
  RefuseCalls(long number, long error, unsigned every = 1, unsigned skip = 0) {
    mappings_may_grow = false;
    target = number;
    answer = -error;
    period = every;
    left = skip;
    refused = 0;
    seen = 0;
    fault_hook = hook;
  }
  ~RefuseCalls() { fault_hook = nullptr; }
  RefuseCalls(const RefuseCalls&) = delete;
  RefuseCalls& operator=(const RefuseCalls&) = delete;
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

// While alive, there is no mapping more to be had (vm.max_map_count), but those that are there may grow.
class RefuseMappings : public RefuseCalls {
 public:
  RefuseMappings() : RefuseCalls(SYS_mmap, 12) { mappings_may_grow = true; }  // ENOMEM
};

// While alive, the first call of one number is not made: it is answered with this, say with a descriptor of the test's own.
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
  bool asked() const { return next == 0; }

 private:
  static long hook(long number) { return number == target ? next.exchange(0) : 0; }
  static inline std::atomic<long> target, next;
};

// What the monotonic clocks show; 0: the kernel's time. And what those of processor time show then: nothing uses any by itself.
extern std::atomic<uint64_t> test_clock_ns, test_cpu_ns;

// From here on time passes by this only, so that a busy machine changes nothing. Time does not go back: for the rest of the process.
inline void let_pass(uint64_t ns) {
  uint64_t now = test_clock_ns.load();
  if (now == 0) now = monotonic_ns();
  test_clock_ns = now + ns;
}

}  // namespace seemalloc::os

// Test build only: refuses system calls as a test asks, so that every failure path is reached.
#pragma once

#include <atomic>

#include "core/os/syscall.h"

namespace seemalloc::os {

// While alive, calls of one number fail: each `every`-th one, or, with every = 1, all of them, after `skip` good ones.
class RefuseCalls {
 public:
  RefuseCalls(long number, long error, unsigned every = 1, unsigned skip = 0) {
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

 private:
  static long hook(long number) {
    if (number != target) return 0;
    if (left != 0) {
      left--;
      return 0;
    }
    if (++seen % period.load() != 0) return 0;
    refused++;
    return answer;
  }
  static inline std::atomic<long> target, answer;
  static inline std::atomic<unsigned> period, left, refused, seen;
};

}  // namespace seemalloc::os

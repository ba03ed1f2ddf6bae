#include "core/os/kernel/wait.h"

#include <errno.h>
#include <linux/futex.h>
#include <time.h>

#include <atomic>

#include "core/base/units.h"
#include "core/os/kernel/syscall.h"

namespace seemalloc::os {

namespace {
timespec timespec_of(uint64_t ns) {
  return {static_cast<time_t>(ns / kSecondNs), static_cast<long>(ns % kSecondNs)};
}

// The call has waited, or need not wait.
bool wait_is_over(long result) {
  return !sys_failed(result) || result == -ETIMEDOUT || result == -EAGAIN || result == -EINTR;
}

// Results of pause() in a row that may stand for a signal or for a refusal (EINTR).
constinit std::atomic<unsigned> interrupted_pauses{0};
constinit std::atomic<bool> no_call_pauses{false};

// Whether one of the calls has slept. If none has, *interrupted tells whether one may have been
// interrupted by a signal.
bool has_slept(uint64_t ns, bool* interrupted) {
  const uint32_t never = 0;  // never woken, and never different: EAGAIN is a refusal
  timespec time = timespec_of(ns);
  for (int way = 0; way < 3; way++) {
    long result = way == 0 ? sys(SYS_futex, as_long(&never), FUTEX_WAIT_PRIVATE, 0, as_long(&time))
                  : way == 1 ? sys(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, as_long(&time))
                             : sys(SYS_ppoll, 0, 0, as_long(&time));
    if (!sys_failed(result) || result == -ETIMEDOUT) return true;
    *interrupted |= result == -EINTR;
  }
  return false;
}
}  // namespace

bool futex_wait(const void* word, uint32_t expected, uint64_t timeout_ns) {
  timespec timeout = timespec_of(timeout_ns);
  return wait_is_over(sys(SYS_futex, as_long(word), FUTEX_WAIT_PRIVATE, static_cast<long>(expected),
                          timeout_ns != 0 ? as_long(&timeout) : 0));
}

bool fence_all_threads() {
  constexpr long kPrivateExpedited = 1 << 3, kRegisterPrivateExpedited = 1 << 4;
  if (!sys_failed(sys(SYS_membarrier, kPrivateExpedited))) return true;
  // Refused until the process has registered, which is free for a process of one thread and costs a
  // grace period later.
  return !sys_failed(sys(SYS_membarrier, kRegisterPrivateExpedited)) &&
         !sys_failed(sys(SYS_membarrier, kPrivateExpedited));
}

void pause(uint64_t ns) {
  constexpr unsigned kMaxInARow = 100;
  bool interrupted = false;
  if (ns == 0) return;
  if (has_slept(ns, &interrupted)) {
    if (interrupted_pauses.load(std::memory_order_relaxed) != 0)
      interrupted_pauses.store(0, std::memory_order_relaxed);
    return;
  }
  if (interrupted && interrupted_pauses.fetch_add(1, std::memory_order_relaxed) < kMaxInARow)
    return;
  no_call_pauses.store(true, std::memory_order_relaxed);
}

bool can_pause() { return !no_call_pauses.load(std::memory_order_relaxed); }

void LoopBrake::slow_down() {
  if (returns_ < kFreeReturns) {
    returns_++;
    return;
  }
  uint64_t ns = kFirstPauseNs << (returns_ - kFreeReturns);
  pause(ns < kMaxPauseNs ? ns : kMaxPauseNs);
  if (ns < kMaxPauseNs) returns_++;
}

long sys_uninterrupted(long number, long a, long b, long c, long d) {
  LoopBrake brake;
  for (unsigned interruptions = 0;; interruptions++) {
    long result = sys(number, a, b, c, d);
    if (result != -EINTR || interruptions == kMaxInterruptions) return result;
    brake.slow_down();
  }
}

void futex_wake(const void* word, int count) {
  sys(SYS_futex, as_long(word), FUTEX_WAKE_PRIVATE, count);
}

}  // namespace seemalloc::os

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

constinit std::atomic<bool> no_call_pauses{false};
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
  const uint32_t never = 0;  // never woken
  if (ns == 0 || futex_wait(&never, 0, ns)) return;
  timespec time = timespec_of(ns);
  if (wait_is_over(sys(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, as_long(&time)))) return;
  if (wait_is_over(sys(SYS_ppoll, 0, 0, as_long(&time)))) return;
  no_call_pauses.store(true, std::memory_order_relaxed);
}

bool can_pause() { return !no_call_pauses.load(std::memory_order_relaxed); }

void futex_wake(const void* word, int count) {
  sys(SYS_futex, as_long(word), FUTEX_WAKE_PRIVATE, count);
}

}  // namespace seemalloc::os

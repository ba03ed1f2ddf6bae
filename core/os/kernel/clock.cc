#include "core/os/kernel/clock.h"

#include <time.h>

#include <atomic>

#include "core/base/counters.h"
#include "core/base/units.h"
#include "core/os/kernel/sandbox_state.h"
#include "core/os/kernel/vdso.h"

namespace seemalloc::os {

#ifdef SEEMALLOC_FAULT_INJECTION
std::atomic<uint64_t> test_clock_ns{0}, test_cpu_ns{1};
#endif

namespace {

uint64_t kernel_clock(clockid_t id) {
  timespec t{};
  read_clock(id, &t);
  return static_cast<uint64_t>(t.tv_sec) * kSecondNs + static_cast<uint64_t>(t.tv_nsec);
}

// The last reading of a CPU time clock, and when it was taken. Reading that clock is a system call.
// While system calls are forbidden, elapsed time is counted as CPU time.
struct CpuClockCache {
  std::atomic<uint64_t> shown{0}, at_ns{0};  // of different moments, if two threads read at once

  uint64_t read(clockid_t id) {
    uint64_t now = kernel_clock(CLOCK_MONOTONIC),
             since = saturating_subtract(now, at_ns.load(std::memory_order_relaxed));
    uint64_t used =
        calls_are_limited() ? shown.load(std::memory_order_relaxed) + since : kernel_clock(id);
    shown.store(used, std::memory_order_relaxed);
    at_ns.store(now, std::memory_order_relaxed);
    return used;
  }
};
constinit CpuClockCache process_cpu;
constinit thread_local CpuClockCache thread_cpu __attribute__((tls_model("initial-exec")));

uint64_t clock_ns(clockid_t id) {
#ifdef SEEMALLOC_FAULT_INJECTION
  uint64_t shown = id != CLOCK_REALTIME ? test_clock_ns.load(std::memory_order_relaxed) : 0;
  if (shown != 0)
    return id == CLOCK_MONOTONIC || id == CLOCK_MONOTONIC_COARSE
               ? shown
               : test_cpu_ns.load(std::memory_order_relaxed);
#endif
  if (id == CLOCK_THREAD_CPUTIME_ID) return thread_cpu.read(id);
  if (id == CLOCK_PROCESS_CPUTIME_ID) return process_cpu.read(id);
  return kernel_clock(id);
}

}  // namespace

uint64_t monotonic_ns() { return clock_ns(CLOCK_MONOTONIC); }
uint64_t coarse_monotonic_ns() { return clock_ns(CLOCK_MONOTONIC_COARSE); }
uint64_t realtime_ns() { return clock_ns(CLOCK_REALTIME); }
uint64_t thread_cpu_ns() { return clock_ns(CLOCK_THREAD_CPUTIME_ID); }
uint64_t process_cpu_ns() { return clock_ns(CLOCK_PROCESS_CPUTIME_ID); }

}  // namespace seemalloc::os

// System calls without the C library: no errno, no cancellation point, no lock, usable before libc
// is relocated.
//
// The core makes every system call through sys(), which refuses those for which a sandbox may end
// the process (sandbox_state.h). In the test build (SEEMALLOC_FAULT_INJECTION) it first calls a
// hook that may refuse the call, so that tests can reach each failure path (os/kernel/fault.h).
// Returns: the kernel's value, or -errno (see sys_failed).
#pragma once

#include <sys/syscall.h>

#include <atomic>

#include "core/base/compiler.h"
#include "core/os/kernel/sandbox_state.h"

namespace seemalloc::os {

#ifdef SEEMALLOC_FAULT_INJECTION
// Set by tests. Returns 0 to let the call pass, or the -errno to answer instead of making it.
// The helper thread makes calls of its own, hence atomic.
extern std::atomic<long (*)(long number)> fault_hook;
#endif

SEEMALLOC_ALWAYS_INLINE bool sys_failed(long result) {
  return static_cast<unsigned long>(result) >= -4095UL;
}

SEEMALLOC_ALWAYS_INLINE long raw_sys(long number, long a, long b, long c, long d, long e, long f) {
#if defined(__x86_64__)
  long result;
  register long r10 __asm__("r10") = d;
  register long r8 __asm__("r8") = e;
  register long r9 __asm__("r9") = f;
  __asm__ volatile("syscall"
                   : "=a"(result)
                   : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                   : "rcx", "r11", "memory");
  return result;
#elif defined(__aarch64__)
  register long x8 __asm__("x8") = number;
  register long x0 __asm__("x0") = a;
  register long x1 __asm__("x1") = b;
  register long x2 __asm__("x2") = c;
  register long x3 __asm__("x3") = d;
  register long x4 __asm__("x4") = e;
  register long x5 __asm__("x5") = f;
  __asm__ volatile("svc 0"
                   : "+r"(x0)
                   : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
                   : "memory");
  return x0;
#else
#error "seemalloc supports x86-64 and aarch64"
#endif
}

inline constexpr long kLimited = -1;  // -EPERM

// Returns 0 if this call may be made, or the -errno to return instead.
SEEMALLOC_ALWAYS_INLINE long refusal(long number) {
#ifdef SEEMALLOC_FAULT_INJECTION
  if (long (*hook)(long) = fault_hook.load(std::memory_order_acquire)) {
    long refused = hook(number);
    if (refused != 0) return refused;
  }
#endif
  return !is_basic_call(number) && calls_are_limited() ? kLimited : 0;
}

inline long sys(long number, long a = 0, long b = 0, long c = 0, long d = 0, long e = 0,
                long f = 0) {
  long refused = refusal(number);
  return refused != 0 ? refused : raw_sys(number, a, b, c, d, e, f);
}

inline long as_long(const void* p) { return reinterpret_cast<long>(p); }

}  // namespace seemalloc::os

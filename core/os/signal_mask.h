// The calling thread's signal mask, by system calls: a program may have a pthread_sigmask of its own in front of the C library's.
//
// Threads: any, at any time, signal handlers included.
#pragma once

#include <signal.h>

#include <cstdint>

#include "core/os/syscall.h"

namespace seemalloc::os {

// The kernel's sigset: bit n − 1 is signal n.
using SignalMask = uint64_t;

constexpr SignalMask mask_of(int signal) { return SignalMask{1} << (signal - 1); }

// All but those that the C library has for itself (cancellation, setuid): other threads wait for their handlers. It knows which.
inline SignalMask all_signals() {
  sigset_t all;
  sigfillset(&all);
  SignalMask mask;
  __builtin_memcpy(&mask, &all, sizeof(mask));
  return mask;
}

// Those that an instruction raises cannot wait: the kernel ends a process that has blocked one. Nor can what abort() sends.
constexpr SignalMask kCannotWait = mask_of(SIGSEGV) | mask_of(SIGBUS) | mask_of(SIGFPE) | mask_of(SIGILL) | mask_of(SIGTRAP) |
                                   mask_of(SIGSYS) | mask_of(SIGABRT);

// how: SIG_BLOCK, SIG_UNBLOCK or SIG_SETMASK. Returns the mask before.
inline SignalMask change_signal_mask(int how, SignalMask mask) {
  SignalMask before = 0;
  sys(SYS_rt_sigprocmask, how, as_long(&mask), as_long(&before), sizeof(mask));
  return before;
}

}  // namespace seemalloc::os

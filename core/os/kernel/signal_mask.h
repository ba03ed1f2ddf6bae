// The calling thread's signal mask, and the actions of signals. Both are changed by system calls,
// because a program may define its own pthread_sigmask and sigaction in front of the C library's.
//
// Threads: any, at any time, signal handlers included.
#pragma once

#include <signal.h>

#include <cstdint>

#include "core/base/compiler.h"
#include "core/os/kernel/syscall.h"

// Defined by glibc, not by musl.
extern void* __libc_stack_end __attribute__((weak));

namespace seemalloc::os {

// The kernel's sigset: bit n − 1 is signal n.
using SignalMask = uint64_t;

constexpr SignalMask mask_of(int signal) { return SignalMask{1} << (signal - 1); }

// All signals except those that the C library uses internally (cancellation, setuid; with musl also
// its calls in all threads), since other threads wait for their handlers.
inline SignalMask all_signals() {
  SignalMask internal = mask_of(32) | mask_of(33);
  if (&__libc_stack_end == nullptr) internal |= mask_of(34);
  return ~internal;
}

// Signals that must not be blocked: those that an instruction raises, since the kernel ends a
// process that has blocked one, and the signal of abort().
constexpr SignalMask kSynchronousSignals = mask_of(SIGSEGV) | mask_of(SIGBUS) | mask_of(SIGFPE) |
                                           mask_of(SIGILL) | mask_of(SIGTRAP) | mask_of(SIGSYS) |
                                           mask_of(SIGABRT);

// The previous mask. is_known is false if the mask could not be changed, and so need not be
// restored.
struct MaskBefore {
  SignalMask mask = 0;
  bool is_known = false;
};

// how: SIG_BLOCK, SIG_UNBLOCK or SIG_SETMASK.
inline MaskBefore change_signal_mask(int how, SignalMask mask) {
  MaskBefore before;
  before.is_known = !sys_failed(
      sys(SYS_rt_sigprocmask, how, as_long(&mask), as_long(&before.mask), sizeof(mask)));
  return before;
}

// Makes the system call even if a sandbox has been detected since then, so that a changed mask is
// always restored.
inline void restore_signal_mask(const MaskBefore& before) {
  if (before.is_known)
    raw_sys(SYS_rt_sigprocmask, SIG_SETMASK, as_long(&before.mask), 0, sizeof(before.mask), 0, 0);
}

// The action of a signal. `handler` is a void (*)(int), or a void (*)(int, siginfo_t*, void*) with
// SA_SIGINFO, or SIG_DFL or SIG_IGN.
struct SignalAction {
  void* handler;
  int flags;
  SignalMask mask;

  bool is_default() const { return handler == reinterpret_cast<void*>(SIG_DFL); }
  bool is_ignored() const { return handler == reinterpret_cast<void*>(SIG_IGN); }
};

// Return false if the kernel refuses.
bool get_action(int signal, SignalAction* action);
bool set_action(int signal, const SignalAction& action);

}  // namespace seemalloc::os

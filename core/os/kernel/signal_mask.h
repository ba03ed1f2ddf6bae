// The calling thread's signal mask, and the actions of signals. The mask is changed by system
// calls, because a program may define its own pthread_sigmask in front of the C library's.
//
// Threads: any, at any time, signal handlers included.
#pragma once

#include <signal.h>

#include <cstdint>

#include "core/base/compiler.h"
#include "core/os/kernel/syscall.h"

// The C library's internal name of sigaction. A program that defines its own sigaction does not
// replace it; the program's function may take locks, which a BareThread must not. In builds with
// the thread sanitizer this is sigaction, because the sanitizer must see each call.
#if !defined(__SANITIZE_THREAD__)
extern "C" int __sigaction(int signal, const struct sigaction* action,
                           struct sigaction* old) noexcept;
#else
#define __sigaction sigaction
#endif

namespace seemalloc::os {

// The kernel's sigset: bit n − 1 is signal n.
using SignalMask = uint64_t;

constexpr SignalMask mask_of(int signal) { return SignalMask{1} << (signal - 1); }

// All signals except those that the C library uses internally (cancellation, setuid), since other
// threads wait for their handlers: sigfillset leaves them out. Not inlined, because sigset_t has
// 128 bytes.
SEEMALLOC_NOINLINE inline SignalMask all_signals() {
  sigset_t all;
  sigfillset(&all);
  SignalMask mask;
  __builtin_memcpy(&mask, &all, sizeof(mask));
  return mask;
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

// The action of a signal. Return false if the kernel refuses.
inline bool get_action(int signal, struct sigaction* action) {
  return __sigaction(signal, nullptr, action) == 0;
}
inline bool set_action(int signal, const struct sigaction& action) {
  return __sigaction(signal, &action, nullptr) == 0;
}

}  // namespace seemalloc::os

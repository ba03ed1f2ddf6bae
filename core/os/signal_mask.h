// The calling thread's signal mask, by system calls: a program may have a pthread_sigmask of its own in front of the C
// library's. And what is done upon a signal.
//
// Threads: any, at any time, signal handlers included.
#pragma once

#include <signal.h>

#include <cstdint>

#include "core/base/compiler.h"
#include "core/os/syscall.h"

// The C library's other name for it, which a program that has a sigaction of its own does not replace: that one may
// lock, and a BareThread must not. The thread sanitizer has to see each call.
#if !defined(__SANITIZE_THREAD__)
extern "C" int __sigaction(int signal, const struct sigaction* action, struct sigaction* old) noexcept;
#else
#define __sigaction sigaction
#endif

namespace seemalloc::os {

// The kernel's sigset: bit n − 1 is signal n.
using SignalMask = uint64_t;

constexpr SignalMask mask_of(int signal) { return SignalMask{1} << (signal - 1); }

// All but those that the C library has for itself (cancellation, setuid): other threads wait for their handlers. It
// knows which. Not inlined: sigset_t has 128 bytes.
SEEMALLOC_NOINLINE inline SignalMask all_signals() {
  sigset_t all;
  sigfillset(&all);
  SignalMask mask;
  __builtin_memcpy(&mask, &all, sizeof(mask));
  return mask;
}

// Signals that an instruction raises cannot wait: the kernel ends a process that has blocked one. The signal of abort()
// cannot wait either.
constexpr SignalMask kCannotWait = mask_of(SIGSEGV) | mask_of(SIGBUS) | mask_of(SIGFPE) | mask_of(SIGILL) | mask_of(SIGTRAP) |
                                   mask_of(SIGSYS) | mask_of(SIGABRT);

// The mask as it was; is_known is false where it could not be changed, and so need not be restored.
struct MaskBefore {
  SignalMask mask = 0;
  bool is_known = false;
};

// how: SIG_BLOCK, SIG_UNBLOCK or SIG_SETMASK.
inline MaskBefore change_signal_mask(int how, SignalMask mask) {
  MaskBefore before;
  before.is_known = !sys_failed(sys(SYS_rt_sigprocmask, how, as_long(&mask), as_long(&before.mask), sizeof(mask)));
  return before;
}

// Also where a sandbox has been noticed since: a changed mask never stays.
inline void restore_signal_mask(const MaskBefore& before) {
  if (before.is_known) raw_sys(SYS_rt_sigprocmask, SIG_SETMASK, as_long(&before.mask), 0, sizeof(before.mask), 0, 0);
}

// What is done upon a signal: false where it cannot be asked, or set.
inline bool get_action(int signal, struct sigaction* action) { return __sigaction(signal, nullptr, action) == 0; }
inline bool set_action(int signal, const struct sigaction& action) { return __sigaction(signal, &action, nullptr) == 0; }

}  // namespace seemalloc::os

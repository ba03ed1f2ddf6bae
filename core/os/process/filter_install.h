// Classifies a system call that the program is about to make: whether it installs a seccomp filter
// (FilterCall), and whether it depends on the process having one thread. Also makes such calls.
// Threads: any.
#pragma once

#include <sys/prctl.h>
#include <sys/syscall.h>

namespace seemalloc::os {

struct FilterCall {
  bool installs;
  bool for_all_threads;
  bool has_listener;  // the call returns a descriptor

  // A result that is the id of a thread (one that could not be synchronised) is a refusal, too.
  bool was_refused(long result) const {
    return result < 0 || (for_all_threads && result > 0 && !has_listener);
  }
};
FilterCall filter_call_of_syscall(long number, long a, long b, long c);
FilterCall filter_call_of_prctl(int option, long a, long b);
// Calls that change the privileges of the calling thread only: a second thread, such as the helper
// thread, would keep its privileges. Also calls that the kernel refuses in a process with several
// threads: unshare and setns of a user namespace, and setns of a mount namespace.
constexpr bool option_needs_single_thread(int prctl_option) {
  return prctl_option == PR_SET_KEEPCAPS || prctl_option == PR_SET_SECUREBITS ||
         prctl_option == PR_SET_NO_NEW_PRIVS || prctl_option == PR_CAPBSET_DROP ||
         prctl_option == PR_CAP_AMBIENT;
}
constexpr bool needs_single_thread(long number, long a) {
  constexpr long kLandlockRestrictSelf = 446;  // not in older headers
  switch (number) {
    case SYS_prctl: return option_needs_single_thread(static_cast<int>(a));
    case SYS_capset:
    case SYS_unshare:
    case SYS_setns:
    case SYS_setuid:
    case SYS_setgid:
    case SYS_setreuid:
    case SYS_setregid:
    case SYS_setresuid:
    case SYS_setresgid:
    case SYS_setfsuid:
    case SYS_setfsgid:
    case SYS_setgroups:
    case kLandlockRestrictSelf: return true;
    default: return false;
  }
}
// A cheap check before both classifications.
constexpr bool is_watched_call(long number) {
  return number == SYS_seccomp || number == SYS_prctl || needs_single_thread(number, 0);
}
constexpr bool is_watched_option(int prctl_option) {
  return prctl_option == PR_SET_SECCOMP || option_needs_single_thread(prctl_option);
}

// Like the C library's functions of these names: they return -1 and set errno on failure.
long plain_syscall(long number, long a, long b, long c, long d, long e, long f);
int plain_prctl(int option, long a, long b, long c, long d);
int plain_capset(long header, long data);
int plain_unshare(long flags, long);
int plain_setns(long fd, long kind);

}  // namespace seemalloc::os

// FilterCall: whether a system call that the program is about to make installs a seccomp filter. And such calls, made plainly.
// Threads: any.
#pragma once

#include <sys/prctl.h>
#include <sys/syscall.h>

namespace seemalloc::os {

struct FilterCall {
  bool installs;
  bool for_all_threads;
  bool has_listener;  // the answer is a descriptor

  // The number of a thread that could not follow is a refusal, too.
  bool was_refused(long result) const { return result < 0 || (for_all_threads && result > 0 && !has_listener); }
};
FilterCall filter_call_of_syscall(long number, long a, long b, long c);
FilterCall filter_call_of_prctl(int option, long a, long b);
// The short question before that.
inline bool may_install_filter(long number) { return number == SYS_seccomp || number == SYS_prctl; }
inline bool is_filter_option(int prctl_option) { return prctl_option == PR_SET_SECCOMP; }

// As the C library's functions of these names: -1 and errno.
long plain_syscall(long number, long a, long b, long c, long d, long e, long f);
int plain_prctl(int option, long a, long b, long c, long d);

}  // namespace seemalloc::os

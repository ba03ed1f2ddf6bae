// What a system call that the program is about to make means for us: whether it installs a seccomp filter (FilterCall), and whether it
// depends on the process having one thread. And such calls, made plainly.
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
// Calls that go wrong where a second thread exists, such as the helper. capset, PR_SET_KEEPCAPS and PR_SET_SECUREBITS change the calling
// thread alone; the C library's setuid and its like call in each thread and abort the process if the answers differ. The kernel refuses
// a user namespace (unshare, setns), and to enter a mount namespace, to a process with several threads.
enum class OneThreadCall : long { kPrctl = SYS_prctl, kCapset = SYS_capset, kUnshare = SYS_unshare, kSetns = SYS_setns };
bool wants_one_thread(OneThreadCall call, long a);  // others than these do not
// The short question before both.
inline bool is_noted_call(long number) {
  return number == SYS_seccomp || number == SYS_prctl || number == SYS_capset || number == SYS_unshare || number == SYS_setns;
}
inline bool is_noted_option(int prctl_option) {
  return prctl_option == PR_SET_SECCOMP || prctl_option == PR_SET_KEEPCAPS || prctl_option == PR_SET_SECUREBITS;
}

// As the C library's functions of these names: -1 and errno.
long plain_syscall(long number, long a, long b, long c, long d, long e, long f);
int plain_prctl(int option, long a, long b, long c, long d);
int plain_capset(long header, long data);
int plain_unshare(long flags, long);
int plain_setns(long fd, long kind);

}  // namespace seemalloc::os

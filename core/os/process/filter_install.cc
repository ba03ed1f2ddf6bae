#include "core/os/process/filter_install.h"

#include <errno.h>
#include <linux/seccomp.h>

#include "core/os/kernel/syscall.h"

namespace seemalloc::os {

namespace {
long with_errno(long result) {
  if (!sys_failed(result)) return result;
  errno = static_cast<int>(-result);
  return -1;
}
}  // namespace

FilterCall filter_call_of_prctl(int option, long a, long b) {
  return {option == PR_SET_SECCOMP && (a == SECCOMP_MODE_STRICT || b != 0), false, false};
}

FilterCall filter_call_of_syscall(long number, long a, long b, long c) {
  if (number == SYS_prctl) return filter_call_of_prctl(static_cast<int>(a), b, c);
  if (number != SYS_seccomp) return {};
  if (a == SECCOMP_SET_MODE_STRICT) return {true, false, false};
  // Without a filter it only checks which flags are supported.
  if (a != SECCOMP_SET_MODE_FILTER || c == 0) return {};
  return {true, (b & SECCOMP_FILTER_FLAG_TSYNC) != 0, (b & SECCOMP_FILTER_FLAG_NEW_LISTENER) != 0};
}

long plain_syscall(long number, long a, long b, long c, long d, long e, long f) {
  return with_errno(raw_sys(number, a, b, c, d, e, f));
}
int plain_prctl(int option, long a, long b, long c, long d) {
  return static_cast<int>(with_errno(raw_sys(SYS_prctl, option, a, b, c, d, 0)));
}
int plain_capset(long header, long data) {
  return static_cast<int>(with_errno(raw_sys(SYS_capset, header, data, 0, 0, 0, 0)));
}
int plain_unshare(long flags, long) {
  return static_cast<int>(with_errno(raw_sys(SYS_unshare, flags, 0, 0, 0, 0, 0)));
}
int plain_setns(long fd, long kind) {
  return static_cast<int>(with_errno(raw_sys(SYS_setns, fd, kind, 0, 0, 0, 0)));
}

}  // namespace seemalloc::os

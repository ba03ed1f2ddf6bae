// prctl, syscall, capset, unshare and setns, as the program and its libraries call them: a seccomp
// filter that they install is noticed before it is in force (core/os/process/sandbox.h), and the
// helper thread is ended during a call that requires a process with one thread. All other calls go
// to the next function. Bare system calls are not seen.

#include <errno.h>

#include "core/api/helper/helper.h"
#include "core/api/helper/scoped_helper_stop.h"
#include "core/api/malloc/next_function.h"
#include "core/api/malloc/services.h"
#include "core/base/compiler.h"
#include "core/os/process/filter_install.h"
#include "core/os/process/sandbox.h"

namespace seemalloc {
namespace {

using Syscall = long (*)(long number, long a, long b, long c, long d, long e, long f);
using Prctl = int (*)(int option, long a, long b, long c, long d);
using TwoArguments = int (*)(long a, long b);  // capset, unshare (any second argument), setns
constinit NextFunction<Syscall> next_syscall(os::plain_syscall);
constinit NextFunction<Prctl> next_prctl(os::plain_prctl);
constinit NextFunction<TwoArguments> next_capset(os::plain_capset), next_unshare(os::plain_unshare),
    next_setns(os::plain_setns);

int call_single_threaded(const NextFunction<TwoArguments>& next, long a, long b) {
  ScopedHelperStop helper_stop(ScopedHelperStop::kIfAlone);
  return next.get()(a, b);
}

// Called before a call that may install a filter. A filter of the program's only thread counts as
// one for the whole process.
void before(const os::FilterCall& call) {
  if (!call.installs) return;
  int saved_errno = errno;
  if (call.for_all_threads || helper_is_only_other_thread()) stop_helper_before_filter();
  errno = saved_errno;
  os::begin_filter_install(call.for_all_threads);
}

void after(const os::FilterCall& call, long result) {
  if (!call.installs || !call.was_refused(result)) return;
  int saved_errno = errno;
  os::filter_was_refused(call.for_all_threads);
  restart_helper_without_filter();
  errno = saved_errno;
}

[[maybe_unused]] SEEMALLOC_NOINLINE long hooked_syscall(long number, long a, long b, long c, long d,
                                                        long e, long f) {
  ScopedHelperStop helper_stop(os::needs_single_thread(number, a) ? ScopedHelperStop::kIfAlone
                                                                  : ScopedHelperStop::kNever);
  os::FilterCall call = os::filter_call_of_syscall(number, a, b, c);
  before(call);
  long result = next_syscall.get()(number, a, b, c, d, e, f);
  after(call, result);
  return result;
}

[[maybe_unused]] SEEMALLOC_NOINLINE int hooked_prctl(int option, long a, long b, long c, long d) {
  ScopedHelperStop helper_stop(os::option_needs_single_thread(option) ? ScopedHelperStop::kIfAlone
                                                                      : ScopedHelperStop::kNever);
  os::FilterCall call = os::filter_call_of_prctl(option, a, b);
  before(call);
  int result = next_prctl.get()(option, a, b, c, d);
  after(call, result);
  return result;
}

}  // namespace

int hooked_capset(long a, long b) { return call_single_threaded(next_capset, a, b); }
int hooked_unshare(long a, long b) { return call_single_threaded(next_unshare, a, b); }
int hooked_setns(long a, long b) { return call_single_threaded(next_setns, a, b); }

void find_next_filter_calls() {
  next_syscall.find("syscall");
  next_prctl.find("prctl");
  next_capset.find("capset");
  next_unshare.find("unshare");
  next_setns.find("setns");
}

}  // namespace seemalloc

#ifndef SEEMALLOC_FAULT_INJECTION
// The C library declares these functions with "...", but their arguments are passed in the same
// registers. Weak: a static program's own functions win. The last calls are tail calls: the next
// function finds the stack and the registers as the caller left them.
extern "C" {
__attribute__((visibility("default"), weak)) long seemalloc_syscall(long number, long a, long b,
                                                                    long c, long d, long e,
                                                                    long f) __asm__("syscall");
long seemalloc_syscall(long number, long a, long b, long c, long d, long e, long f) {
  if (SEEMALLOC_UNLIKELY(seemalloc::os::is_watched_call(number)))
    return seemalloc::hooked_syscall(number, a, b, c, d, e, f);
  return seemalloc::next_syscall.get()(number, a, b, c, d, e, f);
}

__attribute__((visibility("default"), weak)) int seemalloc_prctl(int option, long a, long b, long c,
                                                                 long d) __asm__("prctl");
int seemalloc_prctl(int option, long a, long b, long c, long d) {
  if (SEEMALLOC_UNLIKELY(seemalloc::os::is_watched_option(option)))
    return seemalloc::hooked_prctl(option, a, b, c, d);
  return seemalloc::next_prctl.get()(option, a, b, c, d);
}

__attribute__((visibility("default"), weak)) int seemalloc_capset(
    void* header, const void* data) __asm__("capset");
int seemalloc_capset(void* header, const void* data) {
  return seemalloc::hooked_capset(reinterpret_cast<long>(header), reinterpret_cast<long>(data));
}

__attribute__((visibility("default"), weak)) int seemalloc_unshare(int flags) __asm__("unshare");
int seemalloc_unshare(int flags) { return seemalloc::hooked_unshare(flags, 0); }

__attribute__((visibility("default"), weak)) int seemalloc_setns(int fd, int kind) __asm__("setns");
int seemalloc_setns(int fd, int kind) { return seemalloc::hooked_setns(fd, kind); }
}
#endif

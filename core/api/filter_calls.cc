#include "core/api/filter_calls.h"

#include <dlfcn.h>
#include <errno.h>

#include <atomic>

#include "core/api/helper.h"
#include "core/base/compiler.h"
#include "core/os/filter_install.h"
#include "core/os/sandbox.h"

extern "C" __attribute__((weak)) void* dlsym(void* handle, const char* name) noexcept;

namespace seemalloc {
namespace {

using Syscall = long (*)(long number, long a, long b, long c, long d, long e, long f);
using Prctl = int (*)(int option, long a, long b, long c, long d);
constinit std::atomic<Syscall> next_syscall{os::plain_syscall};
constinit std::atomic<Prctl> next_prctl{os::plain_prctl};

void before(const os::FilterCall& call) {
  if (!call.installs) return;
  if (call.for_all_threads) end_helper_before_filter();
  os::expect_filter(call.for_all_threads);
}

void after(const os::FilterCall& call, long result) {
  if (!call.installs || !call.was_refused(result)) return;
  int saved_errno = errno;
  os::filter_was_refused(call.for_all_threads);
  if (call.for_all_threads) filter_did_not_come();
  errno = saved_errno;
}

[[maybe_unused]] SEEMALLOC_NOINLINE long noted_syscall(long number, long a, long b, long c, long d, long e, long f) {
  os::FilterCall call = os::filter_call_of_syscall(number, a, b, c);
  before(call);
  long result = next_syscall.load(std::memory_order_relaxed)(number, a, b, c, d, e, f);
  after(call, result);
  return result;
}

[[maybe_unused]] SEEMALLOC_NOINLINE int noted_prctl(int option, long a, long b, long c, long d) {
  os::FilterCall call = os::filter_call_of_prctl(option, a, b);
  before(call);
  int result = next_prctl.load(std::memory_order_relaxed)(option, a, b, c, d);
  after(call, result);
  return result;
}

}  // namespace

void find_next_filter_calls() {
  if (dlsym == nullptr) return;
  if (void* found = dlsym(RTLD_NEXT, "syscall")) next_syscall.store(reinterpret_cast<Syscall>(found), std::memory_order_relaxed);
  if (void* found = dlsym(RTLD_NEXT, "prctl")) next_prctl.store(reinterpret_cast<Prctl>(found), std::memory_order_relaxed);
}

}  // namespace seemalloc

#ifndef SEEMALLOC_FAULT_INJECTION
// Declared with "..." elsewhere: the arguments are where they are for a function that names them. Weak: a static program's own comes first.
// Calls in the end: the next one finds the stack and the registers as its caller left them.
extern "C" {
__attribute__((visibility("default"), weak)) long seemalloc_syscall(long number, long a, long b, long c, long d, long e, long f) __asm__("syscall");
long seemalloc_syscall(long number, long a, long b, long c, long d, long e, long f) {
  if (SEEMALLOC_UNLIKELY(seemalloc::os::may_install_filter(number))) return seemalloc::noted_syscall(number, a, b, c, d, e, f);
  return seemalloc::next_syscall.load(std::memory_order_relaxed)(number, a, b, c, d, e, f);
}

__attribute__((visibility("default"), weak)) int seemalloc_prctl(int option, long a, long b, long c, long d) __asm__("prctl");
int seemalloc_prctl(int option, long a, long b, long c, long d) {
  if (SEEMALLOC_UNLIKELY(seemalloc::os::is_filter_option(option))) return seemalloc::noted_prctl(option, a, b, c, d);
  return seemalloc::next_prctl.load(std::memory_order_relaxed)(option, a, b, c, d);
}
}
#endif

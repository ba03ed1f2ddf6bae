// setuid and similar functions, for the calls of the program and its libraries. The C library makes
// these system calls in each thread that it knows of, which excludes the helper thread. So the
// helper thread ends before the call, and starts again afterwards with the new credentials of the
// caller. Only in the shared libraries: a static program has no second function of the same name to
// call, and its helper thread detects the change (core/api/helper/helper.cc).
#include <errno.h>

#include <string_view>

#include "core/api/helper/scoped_helper_stop.h"
#include "core/api/malloc/next_function.h"

namespace seemalloc {
namespace {

// The C library declares these with one to three arguments of 32 or 64 bits, which are passed in
// the same registers.
using IdentityCall = int (*)(long a, long b, long c);

// setfsuid and setfsgid affect the calling thread only; the C library makes all other calls in each
// thread.
constexpr struct {
  const char* name;
  ScopedHelperStop::When when;
} kCalls[] = {{"setuid", ScopedHelperStop::kAlways},    {"setgid", ScopedHelperStop::kAlways},
              {"seteuid", ScopedHelperStop::kAlways},   {"setegid", ScopedHelperStop::kAlways},
              {"setreuid", ScopedHelperStop::kAlways},  {"setregid", ScopedHelperStop::kAlways},
              {"setresuid", ScopedHelperStop::kAlways}, {"setresgid", ScopedHelperStop::kAlways},
              {"setgroups", ScopedHelperStop::kAlways}, {"initgroups", ScopedHelperStop::kAlways},
              {"setfsuid", ScopedHelperStop::kIfAlone}, {"setfsgid", ScopedHelperStop::kIfAlone}};
constexpr unsigned kCount = sizeof(kCalls) / sizeof(kCalls[0]);
constinit NextFunction<IdentityCall> next_calls[kCount];

consteval unsigned number_of(std::string_view name) {
  unsigned number = 0;
  while (name != kCalls[number].name) number++;
  return number;
}

// Looked up at load, because they may be called in signal handlers, where a lookup is not possible.
__attribute__((constructor(101))) void find_all() {
  for (unsigned number = 0; number < kCount; number++) next_calls[number].find(kCalls[number].name);
}

int call_single_threaded(unsigned number, long a, long b, long c) {
  IdentityCall next = next_calls[number].find_once(kCalls[number].name);
  if (next == nullptr) {
    errno = ENOSYS;
    return -1;
  }
  ScopedHelperStop aside(kCalls[number].when);
  return next(a, b, c);
}

}  // namespace
}  // namespace seemalloc

#define SEEMALLOC_IDENTITY_CALL(name)                                                            \
  extern "C" __attribute__((visibility("default"))) int seemalloc_##name(long a, long b,         \
                                                                         long c) __asm__(#name); \
  int seemalloc_##name(long a, long b, long c) {                                                 \
    return seemalloc::call_single_threaded(seemalloc::number_of(#name), a, b, c);                \
  }
SEEMALLOC_IDENTITY_CALL(setuid)
SEEMALLOC_IDENTITY_CALL(setgid)
SEEMALLOC_IDENTITY_CALL(seteuid)
SEEMALLOC_IDENTITY_CALL(setegid)
SEEMALLOC_IDENTITY_CALL(setreuid)
SEEMALLOC_IDENTITY_CALL(setregid)
SEEMALLOC_IDENTITY_CALL(setresuid)
SEEMALLOC_IDENTITY_CALL(setresgid)
SEEMALLOC_IDENTITY_CALL(setgroups)
SEEMALLOC_IDENTITY_CALL(initgroups)
SEEMALLOC_IDENTITY_CALL(setfsuid)
SEEMALLOC_IDENTITY_CALL(setfsgid)

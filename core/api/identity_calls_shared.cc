// setuid and its like, as the program and its libraries call them: the C library makes the call in each thread that it
// knows, and the helper is none of them. It is away meanwhile, and comes back with the credentials that the caller has
// by then. Only in the shared libraries: in a static program there are no other ones to call, and the helper finds out
// by itself (core/api/helper.cc).
#include <errno.h>

#include <string_view>

#include "core/api/helper_aside.h"
#include "core/api/next_function.h"

namespace seemalloc {
namespace {

// Elsewhere these have one to three arguments, of 32 and 64 bits, passed in the same registers.
using IdentityCall = int (*)(long a, long b, long c);

// setfsuid and setfsgid are for the calling thread; the C library makes all others in each thread.
constexpr struct {
  const char* name;
  HelperAside::When when;
} kCalls[] = {{"setuid", HelperAside::kAlways},    {"setgid", HelperAside::kAlways},    {"seteuid", HelperAside::kAlways},
              {"setegid", HelperAside::kAlways},   {"setreuid", HelperAside::kAlways},  {"setregid", HelperAside::kAlways},
              {"setresuid", HelperAside::kAlways}, {"setresgid", HelperAside::kAlways}, {"setgroups", HelperAside::kAlways},
              {"initgroups", HelperAside::kAlways}, {"setfsuid", HelperAside::kIfAlone}, {"setfsgid", HelperAside::kIfAlone}};
constexpr unsigned kCount = sizeof(kCalls) / sizeof(kCalls[0]);
constinit NextFunction<IdentityCall> next_calls[kCount];

consteval unsigned number_of(std::string_view name) {
  unsigned number = 0;
  while (name != kCalls[number].name) number++;
  return number;
}

// They may be called in signal handlers, where nothing is to be looked up any more.
__attribute__((constructor(101))) void find_all() {
  for (unsigned number = 0; number < kCount; number++) next_calls[number].find(kCalls[number].name);
}

int call_apart(unsigned number, long a, long b, long c) {
  IdentityCall next = next_calls[number].find_once(kCalls[number].name);
  if (next == nullptr) {
    errno = ENOSYS;
    return -1;
  }
  HelperAside aside(kCalls[number].when);
  return next(a, b, c);
}

}  // namespace
}  // namespace seemalloc

#define SEEMALLOC_IDENTITY_CALL(name)                                                                            \
  extern "C" __attribute__((visibility("default"))) int seemalloc_##name(long a, long b, long c) __asm__(#name); \
  int seemalloc_##name(long a, long b, long c) { return seemalloc::call_apart(seemalloc::number_of(#name), a, b, c); }
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

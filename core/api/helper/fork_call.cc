// fork and __register_atfork (which pthread_atfork calls), for the calls of the program and its
// libraries. The two functions take turns, and signals that can wait are blocked until the call is
// over (core/api/malloc/fork.h): in a process of several threads glibc's fork holds a lock around
// its handlers, and a fork in a signal handler during that time would wait for the lock for ever.
// Calls inside the C library and calls of static programs do not reach these functions.
//
// CPython 3.12 and later counts the process's threads after each fork, and warns if there are
// several. In a CPython process of one thread there is no helper thread during the fork.
#include <errno.h>
#include <unistd.h>

#include "core/api/helper/helper.h"
#include "core/api/malloc/fork.h"
#include "core/api/malloc/may_lock.h"
#include "core/api/malloc/next_function.h"
#include "core/base/compiler.h"
#include "core/base/units.h"

#if defined(__GLIBC__) && __GLIBC_PREREQ(2, 34)

extern "C" pid_t __fork() noexcept;
extern "C" __attribute__((weak)) const unsigned long Py_Version;

namespace seemalloc {
namespace {

using Handler = void (*)();
constinit NextFunction<pid_t (*)()> next_fork(__fork);
constinit NextFunction<int (*)(Handler, Handler, Handler, void*)> next_register;

// Looked up at load, because the first call may be in a signal handler.
__attribute__((constructor(101))) void find_next_fork() { next_fork.find("fork"); }

int register_atfork_in_turn(Handler prepare, Handler parent, Handler child, void* library) {
  auto next = next_register.find_once("__register_atfork");
  if (next == nullptr) return ENOMEM;
  ForkExclusion turn(ForkExclusion::kRegistration);
  return next(prepare, parent, child, library);
}

pid_t fork_in_turn() {
  ForkExclusion turn(ForkExclusion::kFork);
  return next_fork.get()();
}

bool threads_are_counted() {
  constexpr unsigned long kFirstThatCounts = 0x030C0000;
  return SEEMALLOC_UNLIKELY(&Py_Version != nullptr) && Py_Version >= kFirstThatCounts &&
         helper_is_only_other_thread() && may_lock();
}

}  // namespace
}  // namespace seemalloc

SEEMALLOC_EXPORT pid_t fork() noexcept {
  using namespace seemalloc;
  constexpr uint64_t kUntilCountedNs = 50 * kMillisecondNs;
  bool helper_is_away = threads_are_counted() && stop_helper_temporarily();
  pid_t result = fork_in_turn();
  if (helper_is_away && result != 0) restart_helper(kUntilCountedNs);
  return result;
}

SEEMALLOC_EXPORT int __register_atfork(void (*prepare)(), void (*parent)(), void (*child)(),
                                       void* library) noexcept {
  return seemalloc::register_atfork_in_turn(prepare, parent, child, library);
}

#endif

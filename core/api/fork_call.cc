// fork, as the program and its libraries call it: signals that can wait do so until it is over. glibc's fork holds a lock around its
// handlers, in a process of several threads, and one called in a signal handler meanwhile waits for it for ever. A program of one thread
// need not know: it has several by our helper. The C library's own calls of fork do not come here; nor does a static program's.
#include <dlfcn.h>
#include <unistd.h>

#include <atomic>

#include "core/base/compiler.h"
#include "core/os/signal_mask.h"

#if defined(__GLIBC__) && __GLIBC_PREREQ(2, 34)

extern "C" __attribute__((weak)) void* dlsym(void* handle, const char* name) noexcept;
extern "C" pid_t __fork() noexcept;

namespace seemalloc {
namespace {

using Fork = pid_t (*)();

constinit std::atomic<Fork> next_fork{nullptr};

// Not in the first call, which may be in a signal handler.
__attribute__((constructor(101))) void find_next_fork() {
  void* found = dlsym != nullptr ? dlsym(RTLD_NEXT, "fork") : nullptr;
  if (found != nullptr) next_fork.store(reinterpret_cast<Fork>(found), std::memory_order_relaxed);
}

}  // namespace
}  // namespace seemalloc

SEEMALLOC_EXPORT pid_t fork() noexcept {
  using namespace seemalloc;
  os::MaskBefore before = os::change_signal_mask(SIG_BLOCK, os::all_signals() & ~os::kCannotWait);
  Fork next = next_fork.load(std::memory_order_relaxed);
  pid_t result = next != nullptr ? next() : __fork();
  os::restore_signal_mask(before);
  return result;
}

#endif

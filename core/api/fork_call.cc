// fork, as the program and its libraries call it: signals that can wait do so until it is over. glibc's fork holds a lock around its
// handlers, in a process of several threads, and one called in a signal handler meanwhile waits for it for ever. A program of one thread
// need not know: it has several by our helper. The C library's own calls of fork do not come here; nor does a static program's.
#include <unistd.h>

#include "core/api/next_function.h"
#include "core/base/compiler.h"
#include "core/os/signal_mask.h"

#if defined(__GLIBC__) && __GLIBC_PREREQ(2, 34)

extern "C" pid_t __fork() noexcept;

namespace seemalloc {
namespace {

constinit NextFunction<pid_t (*)()> next_fork(__fork);

// Not in the first call, which may be in a signal handler.
__attribute__((constructor(101))) void find_next_fork() { next_fork.find("fork"); }

}  // namespace
}  // namespace seemalloc

SEEMALLOC_EXPORT pid_t fork() noexcept {
  using namespace seemalloc;
  os::MaskBefore before = os::change_signal_mask(SIG_BLOCK, os::all_signals() & ~os::kCannotWait);
  pid_t result = next_fork.get()();
  os::restore_signal_mask(before);
  return result;
}

#endif

// fork: which locks are held across it, in which order, and how they are released in the child.
//
// The C library's fork runs the prepare handlers, takes its own locks, clones, and runs the
// parent's or child's handlers. seemalloc holds all its locks from its prepare handler on. The
// protocol:
// 1. Signals that can wait are blocked from before the first lock until after the last: a signal
//    handler that forks does so before or after, not in between.
// 2. A lock that the C library takes after the prepare handlers, while other threads may allocate
//    under it, is taken before our locks if it has a name: the list of streams (a thread in
//    fflush(NULL) holds it and waits for a stream, whose holder waits for malloc).
// 3. A nested fork (in a SIGSEGV handler, or in a fork handler of the program) finds everything
//    locked by this thread, and takes nothing. Its child is in the middle of the outer fork, and is
//    set up as a child where the outer fork ends.
// 4. A fork in a signal handler that has interrupted a critical section does not wait long for any
//    lock: the holder may be this very thread, which continues with it in parent and child.
// 5. glibc (2.36 and later) takes the lock of its list of fork handlers again after each handler,
//    and allocates under it when the list grows. So forks and registrations of handlers take turns
//    (ForkExclusion). Any number of one kind may be in progress, but not both kinds.
// Cases that cannot be ordered: docs/decisions/0068.
#pragma once

#include "core/os/kernel/signal_mask.h"

namespace seemalloc {

// Called once, when the C library may be called.
void install_fork_handlers();

// Rule 5, and rule 1 around the C library's function. Waits for the other kind, but not forever: a
// fork handler may wait for a thread that registers another. Inside another turn of the same thread
// it does nothing.
class ForkExclusion {
 public:
  enum Kind : int { kRegistration = -1, kFork = 1 };
  explicit ForkExclusion(Kind kind);
  ~ForkExclusion();
  ForkExclusion(const ForkExclusion&) = delete;

 private:
  os::MaskBefore signals_before_;
  bool is_counted_;
};

}  // namespace seemalloc

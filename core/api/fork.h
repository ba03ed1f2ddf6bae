// fork: which locks are held across it, in which order, and what becomes of them in the child.
//
// The C library's fork runs the prepare handlers, takes locks of its own, clones, and runs the parent's or child's handlers. Ours hold all
// of our locks from the prepare handler on. The protocol:
// 1. Signals that can wait are blocked from before the first lock until after the last: a handler that forks does so before or after, not
//    in between.
// 2. What the C library locks behind the prepare handlers while other threads may allocate under it is taken before our locks, where it
//    has a name: the list of streams (a thread in fflush(NULL) holds it and waits for a stream, whose holder waits for malloc).
// 3. A fork within (a handler of SIGSEGV, a fork handler of the program's own) finds everything locked by this thread, and takes nothing.
//    Its child is in the midst of the outer fork, and becomes a child in full where that one ends.
// 4. A fork in a signal handler that has interrupted a critical section waits for no lock for long: its holder may be this very thread,
//    which goes on with it in parent and child.
// 5. glibc (2.36 and later) takes the lock of its list of fork handlers again behind each handler, and allocates under it when the list grows.
//    So forks and registrations of handlers take turns (ForkTurn). Any number of one kind may be under way, or of the other.
// What cannot be ordered: docs/decisions/0068.
#pragma once

#include "core/os/signal_mask.h"

namespace seemalloc {

// Once, when the C library may be asked.
void install_fork_handlers();

// Rule 5, and rule 1 around the C library's function. Waits for the other kind, but not for ever: a fork handler may wait for a thread that
// registers another. Within another turn of the same thread it does nothing.
class ForkTurn {
 public:
  enum Kind : int { kRegistration = -1, kFork = 1 };
  explicit ForkTurn(Kind kind);
  ~ForkTurn();
  ForkTurn(const ForkTurn&) = delete;

 private:
  os::MaskBefore signals_before_;
  bool is_counted_;
};

}  // namespace seemalloc

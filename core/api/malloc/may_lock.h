#pragma once

#include "core/os/runtime/lock.h"

namespace seemalloc {

// False in a signal handler that has interrupted one of our critical sections, or between fork's
// handlers: code that needs our locks (taking a profile, for instance) must not run.
inline bool may_lock() { return locks_held == 0 && !fork_holds_every_lock; }

}  // namespace seemalloc

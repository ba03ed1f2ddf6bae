// Fork support for this directory: resets its locks in a forked child, since other threads of the
// parent may have held them.
//
// The locks are not taken before fork: a thread that forks with a lock held counts as interrupted
// in the middle of its work (core/api/malloc/process.cc).
#pragma once

namespace seemalloc::compat {

void reset_profilers_in_child();

}  // namespace seemalloc::compat

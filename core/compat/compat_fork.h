// What a forked child has to know of this folder: its locks, which other threads of the parent may have held.
//
// They are not taken for fork, since a thread that forks with a lock held counts as interrupted in the middle of its work
// (core/api/process.cc).
#pragma once

namespace seemalloc::compat {

void forget_profilers_in_child();

}  // namespace seemalloc::compat

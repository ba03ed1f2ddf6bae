// Locks the heaps around a fork, and makes them usable in the child.
#pragma once

namespace seemalloc::heap {

void lock_for_fork();
void unlock_after_fork_parent();
// In the child: the other threads are gone; this thread abandons their heaps on their behalf.
void unlock_after_fork_child();

}  // namespace seemalloc::heap

// The ids and privileges of this process and the calling thread.
// Does not touch errno, allocate or lock. Threads: any, at any time, including signal handlers.
#pragma once

namespace seemalloc::os {

// Not cached: right after fork and raw clone; if the call is forbidden, the last known id.
int process_id();
int thread_id();  // if the call is forbidden, a number that no other living thread has
// In a forked child: the parent's ids are not ours.
void forget_ids_in_child();
// True when the process is setuid/setgid or has raised capabilities (AT_SECURE).
bool is_privileged();

}  // namespace seemalloc::os

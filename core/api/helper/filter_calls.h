// prctl, syscall, capset, unshare and setns, as the program and its libraries call them: a seccomp filter that they
// install is noticed before it is in force (core/os/sandbox.h), and the helper thread is ended during a call that
// requires a process with one thread. All other calls go to the next function. Bare system calls are not seen.
#pragma once

namespace seemalloc {

// Called at load. Until then, and in a static program, calls go to the kernel directly.
void find_next_filter_calls();

}  // namespace seemalloc

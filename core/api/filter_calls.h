// prctl, syscall, capset, unshare and setns, as the program and its libraries call them: a seccomp filter that they install is noticed
// before it is in force (core/os/sandbox.h), and the helper is away while a call is made that wants the process to have one thread. All else
// goes to the next one. What is done by a bare system call is not seen.
#pragma once

namespace seemalloc {

// Called at load. Until then, and in a static program, calls go to the kernel directly.
void find_next_filter_calls();

}  // namespace seemalloc

// Sandbox: which system calls may be made under a seccomp filter, which may end the process for any
// other call.
//
// The basic calls are those of malloc itself: mmap, munmap, mremap, madvise, futex. They are always
// made. So is mprotect, which is called only while the process starts, as the dynamic linker has
// done before (loaded_object.h). Once the process is known to be in a sandbox, every other call
// that we make is refused here, with -EPERM and without calling the kernel; each caller degrades as
// if the kernel had refused. sys() makes the check. How a sandbox is detected: docs/decisions/0074.
// Threads: any, signal handlers included.
#pragma once

#include "core/os/kernel/sandbox_state.h"

namespace seemalloc::os {

// For the option `sandbox`: always limited, or never. The default is to detect sandboxes.
void limit_calls();
void never_limit_calls();

// A filter is about to be installed, for the calling thread or for all. The limits apply from now
// on, unless it is refused.
void begin_filter_install(bool for_all_threads);
void filter_was_refused(bool for_all_threads);

// For use before a thread is started: a filter may have been installed unnoticed, by a bare system
// call. Opens a file, unless a sandbox is known.
bool is_in_a_sandbox();

}  // namespace seemalloc::os

// Signal frames without unwind tables: the interrupted registers, from where the kernel put them.
//
// Needed where the code that returns from a signal handler has no entry in .eh_frame: aarch64's vDSO, musl, the Go
// runtime. Called by the unwinder for a pc in a module that has no row. Threads: none of its own.
#pragma once

#include "core/profile/registers.h"
#include "core/profile/stack_memory.h"

namespace seemalloc::profile {

// True when the code at `registers->pc()` is the sigreturn system call; `*registers` are then the interrupted ones.
bool leave_signal_frame(Registers* registers, StackMemory& memory);

}  // namespace seemalloc::profile

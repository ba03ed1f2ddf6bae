// Signal frames without unwind tables: the interrupted registers, from where the kernel put them.
//
// Needed where the code that returns from a signal handler has no entry in .eh_frame: aarch64's vDSO, musl, the Go
// runtime. Called by the unwinder for a pc in a module that has no row. Threads: none of its own.
#pragma once

#include "core/profile/registers.h"
#include "core/profile/stack_memory.h"

namespace seemalloc::profile {

// True when the code at `pc` is the sigreturn system call. One system call of our own: nothing need be mapped there.
bool is_signal_return(uintptr_t pc);

// Replaces `*registers` by the interrupted ones. Requires: is_signal_return(registers->pc()). False when the stack does
// not hold them.
bool leave_signal_frame(Registers* registers, StackMemory& memory);

}  // namespace seemalloc::profile

// The registers that a signal interrupted, read from the frame that the kernel stored.
//
// Used for captures in a signal handler, and for walking through one if the code that returns from
// it has no entry in .eh_frame: aarch64's vDSO, musl, the Go runtime. In the latter case the
// unwinder calls it for a pc in a module without a row. Threads: none of its own.
#pragma once

#include "core/profile/code/registers.h"
#include "core/profile/unwind/stack_memory.h"

namespace seemalloc::profile {

// Whether the code at `pc` is the sigreturn system call. Makes one system call; `pc` need not be
// mapped.
bool is_signal_return(uintptr_t pc);

// Replaces `*registers` by the interrupted ones. Requires: is_signal_return(registers->pc()).
// Returns false if they cannot be read from the stack.
bool leave_signal_frame(Registers* registers, StackMemory& memory);

// All registers, from the third argument of the handler.
Registers interrupted_registers(const void* ucontext);

}  // namespace seemalloc::profile

// The registers that a signal interrupted, from where the kernel put them.
//
// For captures in a signal handler; and for walking through one where the code that returns from it has no entry in
// .eh_frame: aarch64's vDSO, musl, the Go runtime. Called by the unwinder, there for a pc in a module that has no row.
// Threads: none of its own.
#pragma once

#include "core/profile/registers.h"
#include "core/profile/stack_memory.h"

namespace seemalloc::profile {

// True when the code at `pc` is the sigreturn system call. One system call of our own: nothing need be mapped there.
bool is_signal_return(uintptr_t pc);

// Replaces `*registers` by the interrupted ones. Requires: is_signal_return(registers->pc()). False when the stack does
// not hold them.
bool leave_signal_frame(Registers* registers, StackMemory& memory);

// All registers, as the handler's third argument has them.
Registers interrupted_registers(const void* ucontext);

}  // namespace seemalloc::profile

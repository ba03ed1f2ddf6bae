// DWARF expressions, for the few frames (PLT stubs, realigned stacks, signal frames) whose rows
// need arithmetic.
//
// The unwinder calls this for the registers of such a row. Threads: one evaluator, on its own stack
// (about 0.2 KiB). Invariant: all memory is read through StackMemory, so a wrong expression fails
// instead of faulting.
#pragma once

#include <cstdint>

#include "core/profile/code/registers.h"
#include "core/profile/unwind/stack_memory.h"

namespace seemalloc::profile {

// Evaluates the block (length, then operations) at `block` and stores the top of its stack.
// `pushed`, if not null, is on the stack at the start (the CFA). Returns false if an operation is
// unknown or lacks operands.
bool evaluate_expression(uintptr_t block, bool trusted, const Registers& registers,
                         StackMemory& memory, const uintptr_t* pushed, uintptr_t* result);

}  // namespace seemalloc::profile

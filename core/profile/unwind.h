// The walk behind capture_stack(), for callers that have the registers: their own, or those that a signal interrupted.
//
// Threads: any. Takes no lock, allocates nothing, calls nothing of the dynamic linker that could, leaves errno alone, and
// reads no memory that may be gone; so it is safe in a signal handler, whatever that interrupted.
#pragma once

#include "core/profile/registers.h"
#include "core/profile/stack.h"
#include "core/profile/stack_memo.h"

namespace seemalloc::profile {

// Fills `out` from the frames above the one `registers` describes, which must be running; otherwise as capture_stack().
void walk_stack(const Registers& registers, size_t max_depth, Stack* out, WalkNotes* notes);
// Captures the stack that a signal interrupted, from the third argument of its handler (a ucontext_t). pcs[0] is the
// interrupted code itself, of whatever library; nothing is skipped. The handler may run on any stack. About 2 KiB of it are used (tests/abi/stack_budget.py).
void capture_stack_from(const void* ucontext, Stack* out, size_t max_depth);
// The same with the interpreter's own frames, whatever the option python_frames says.
void capture_native_stack_from(const void* ucontext, Stack* out, size_t max_depth);

}  // namespace seemalloc::profile

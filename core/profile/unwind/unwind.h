// Stack walking behind capture_stack(), for callers that have the registers: their own, or those
// that a signal interrupted.
//
// Threads: any. Takes no lock, allocates nothing, calls no function of the dynamic linker that
// could, preserves errno, and reads no memory that may have been unmapped. So it is safe in a
// signal handler, regardless of the code that the signal interrupted.
#pragma once

#include "core/base/compiler.h"
#include "core/base/options.h"
#include "core/profile/code/registers.h"
#include "core/profile/python/python.h"
#include "core/profile/sampling/stack.h"
#include "core/profile/unwind/stack_cache.h"

namespace seemalloc::profile {

// The maximum number of frames of a stack: the option stack_depth. Unless it was set, stacks of a
// program whose Python functions are shown may be as deep as possible.
inline size_t chosen_stack_depth() {
  size_t of_python = detail::python_stack_depth.load(std::memory_order_relaxed);
  return SEEMALLOC_UNLIKELY(of_python != 0) ? of_python : options::get(options::Id::stack_depth);
}

// Fills `out` with the frames above the one that `registers` describes, which must be active.
// Otherwise like capture_stack().
void walk_stack(const Registers& registers, size_t max_depth, Stack* out, WalkDependencies* notes);
// Captures the stack that a signal interrupted, from the third argument of its handler (a
// ucontext_t). pcs[0] is the interrupted code itself, in whichever library; no frame is skipped.
// The handler may run on any stack and needs about 2 KiB of it (tests/abi/stack_budget.py).
void capture_stack_from(const void* ucontext, Stack* out, size_t max_depth);
// The same, but keeps the interpreter's own frames regardless of the option python_frames.
void capture_native_stack_from(const void* ucontext, Stack* out, size_t max_depth);

}  // namespace seemalloc::profile

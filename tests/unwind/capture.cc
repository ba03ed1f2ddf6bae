#include "capture.h"

#include "core/profile/sampling/stack.h"
#include "core/profile/unwind/unwind.h"

using seemalloc::profile::Stack;

static void copy(const Stack& stack, captured* out) {
  out->depth = static_cast<int>(stack.depth);
  out->truncated = stack.truncated;
  out->broken = stack.broken;
  __builtin_memcpy(out->pcs, stack.pcs, stack.depth * sizeof(uintptr_t));
}

void capture(captured* out) {
  Stack stack;
  seemalloc::profile::capture_stack(&stack, seemalloc::profile::kMaxStackDepth);
  copy(stack, out);
}

void capture_from(const void* ucontext, captured* out) {
  Stack stack;
  seemalloc::profile::capture_stack_from(ucontext, &stack, seemalloc::profile::kMaxStackDepth);
  copy(stack, out);
}

// One captured call stack, innermost caller first.
#pragma once

#include <cstddef>
#include <cstdint>

namespace seemalloc::profile {

inline constexpr size_t kMaxStackDepth = 128;

struct Stack {
  uint32_t depth = 0;      // valid entries of pcs
  bool truncated = false;  // the stack was deeper than the requested depth
  // Unwinding stopped before the thread's first frame: no unwind rule, or bad memory.
  bool broken = false;
  // Return addresses as found, that is, one past the call instruction. For a frame that a signal
  // interrupted: its pc plus 1. So pc - 1 is always inside the instruction that ran. For Python
  // functions, which replace the interpreter's own frames, see python_pc.h.
  uintptr_t pcs[kMaxStackDepth];
};

// Captures the calling thread's stack, at most `max_depth` (≤ kMaxStackDepth) frames. Leading
// frames inside this library are left out (if seemalloc is a shared object of its own).
// Takes no lock, allocates nothing and calls no function of the dynamic linker that could. Safe in
// signal handlers.
void capture_stack(Stack* out, size_t max_depth);
// The same, but keeps the interpreter's own frames regardless of the option python_frames.
void capture_native_stack(Stack* out, size_t max_depth);

}  // namespace seemalloc::profile

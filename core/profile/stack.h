// One captured call stack, innermost caller first.
#pragma once

#include <cstddef>
#include <cstdint>

namespace seemalloc::profile {

inline constexpr size_t kMaxStackDepth = 128;

struct Stack {
  uint32_t depth = 0;      // valid entries of pcs
  bool truncated = false;  // the stack was deeper than asked for
  bool broken = false;     // unwinding stopped before the thread's first frame: no rule for a frame, or bad memory
  // Return addresses, as found: one past the call. For a frame that a signal interrupted, its pc plus 1. So pc - 1 lies
  // in the instruction that ran, always. Python functions that the interpreter ran in place of its own frames: python_pc.h.
  uintptr_t pcs[kMaxStackDepth];
};

// Captures the calling thread's stack, without the leading frames that lie inside this library (when it is a library of
// its own), at most `max_depth` (≤ kMaxStackDepth) frames.
// Takes no lock, allocates nothing, calls nothing of the dynamic linker that could. Safe in signal handlers.
void capture_stack(Stack* out, size_t max_depth);
// The same with the interpreter's own frames, whatever the option python_frames says.
void capture_native_stack(Stack* out, size_t max_depth);

}  // namespace seemalloc::profile

// The walk behind capture_stack(), for callers that took the registers themselves and want to remember how it went.
#pragma once

#include "core/profile/registers.h"
#include "core/profile/stack.h"
#include "core/profile/stack_memo.h"

namespace seemalloc::profile {

// Fills `out` from the frames above the one `registers` describes, which must be running; otherwise as capture_stack().
void walk_stack(const Registers& registers, size_t max_depth, Stack* out, WalkNotes* notes);
// A truncated stack was recalled instead of being walked.
void count_truncated_stack();

}  // namespace seemalloc::profile

// Whether a word can be a return address: whether a call stands in front of the code that it points to.
//
// How a guess about the stack of code without unwind tables is told from rubbish. Called by the unwinder, by signal
// handlers too. Threads: none of its own. One system call: nothing need be mapped there.
#pragma once

#include <cstdint>

namespace seemalloc::profile {

bool is_behind_call(uintptr_t pc);

}  // namespace seemalloc::profile

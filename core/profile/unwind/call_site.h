// Whether a word can be a return address, that is, whether there is a call instruction before the
// code that it points to.
//
// Used to verify guesses about the stack of code without unwind tables. Called by the unwinder,
// also in signal handlers. Threads: none of its own. Makes one system call; the address need not be
// mapped.
#pragma once

#include <cstdint>

namespace seemalloc::profile {

bool follows_call(uintptr_t pc);

}  // namespace seemalloc::profile

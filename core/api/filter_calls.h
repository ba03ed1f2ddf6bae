// prctl and syscall, as the program and its libraries call them: a seccomp filter that they install is noticed before it is in force
// (core/os/sandbox.h). All else goes to the next one. A filter by a bare system call is not seen.
#pragma once

namespace seemalloc {

// At load: until then, and in a static program, calls go to the kernel at once.
void find_next_filter_calls();

}  // namespace seemalloc

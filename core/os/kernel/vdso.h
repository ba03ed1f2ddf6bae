// The vDSO: a small library that the kernel maps into each process, whose functions read the clocks
// without a system call.
//
// We look up its functions ourselves instead of calling libc's clock_gettime: a program may have
// replaced it
// (libfaketime) by a function that allocates, and we read clocks under locks. Threads: any, at any
//               time, signal
// handlers included.
#pragma once

#include <time.h>

#include <cstdint>

namespace seemalloc::os {

// Returns the address of the vDSO's function of this name in the image at `image`; 0 when it has
// none.
uintptr_t find_in_vdso(uintptr_t image, const char* name);

// Like clock_gettime(2): through the vDSO, or by a system call if there is none (valgrind hides
// it). `out` is unchanged on failure.
void read_clock(clockid_t clock, timespec* out);

}  // namespace seemalloc::os

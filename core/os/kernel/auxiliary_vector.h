// The auxiliary vector: the values that the kernel passes to a new process.
//
// Read where the kernel has put it, behind the environment on the main thread's stack, since a
// program may define its own getauxval, which may allocate. getauxval is called only if the vector
// is not found: in static programs and with musl. Threads: any, at any time, signal handlers
// included.
#pragma once

namespace seemalloc::os {

// `type`: AT_PAGESZ and so on. 0 if the kernel has passed no such value.
unsigned long auxiliary_value(unsigned long type);

}  // namespace seemalloc::os

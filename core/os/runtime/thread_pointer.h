// The calling thread's pointer: the address from which the ABI counts thread-local memory.
// Does not touch errno, allocate or lock. Threads: any, at any time, including signal handlers.
#pragma once

#include <cstdint>

namespace seemalloc::os {

inline uintptr_t thread_pointer() {
  uintptr_t pointer;
#if defined(__x86_64__)
  __asm__("movq %%fs:0, %0" : "=r"(pointer));
#elif defined(__aarch64__)
  __asm__("mrs %0, tpidr_el0" : "=r"(pointer));
#endif
  return pointer;
}

}  // namespace seemalloc::os

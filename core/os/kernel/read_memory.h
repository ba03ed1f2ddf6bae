// Reads memory that may not be mapped.
// Does not touch errno, allocate or lock. Threads: any, at any time, including signal handlers.
#pragma once

#include <cstddef>
#include <cstdint>

namespace seemalloc::os {

// Copies `bytes` from our own address space without faulting on unmapped pages. Returns false when
// any byte is missing.
bool read_memory(const void* from, void* to, size_t bytes);
// The same for several ranges with one system call, if the kernel allows it.
struct MemoryRead {
  uintptr_t from;
  void* to;
  size_t bytes;
};
inline constexpr unsigned kMaxMemoryReads = 4;
bool read_memory(const MemoryRead* reads, unsigned count);

}  // namespace seemalloc::os

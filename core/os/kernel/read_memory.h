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
// The same for several calls of one thread, which then ask the kernel for its id only once. Must
// not be used after a fork.
class MemoryReader {
 public:
  bool read(uintptr_t from, void* to, size_t bytes);
  bool read(const MemoryRead* reads, unsigned count);

 private:
  int thread_ = 0;  // 0: not known yet
};
// Whether these bytes can be written; they stay as they are. Returns false if a sandbox refuses the
// call. Requires: no other thread writes them.
bool is_writable(const void* at, size_t bytes);

}  // namespace seemalloc::os

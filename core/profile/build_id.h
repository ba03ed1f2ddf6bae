// The GNU build id of a loaded ELF file, read from its notes in memory.
#pragma once

#include <cstddef>
#include <cstdint>

namespace seemalloc::profile {

struct BuildId {
  static constexpr size_t kMaxBytes = 32;
  uint8_t bytes[kMaxBytes];
  size_t size;  // 0: the file has none, or it could not be read
};

// `start` is where offset 0 of the file is mapped. Never faults, whatever is or was there. A few system calls.
BuildId read_build_id(uintptr_t start);

}  // namespace seemalloc::profile

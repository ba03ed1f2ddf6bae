// The GNU build id of a loaded ELF file, read from its notes in memory.
#pragma once

#include <link.h>

#include <cstddef>
#include <cstdint>

namespace seemalloc::profile {

struct BuildId {
  static constexpr size_t kMaxBytes = 32;
  uint8_t bytes[kMaxBytes];
  size_t size;  // 0: the file has none, or it could not be read

  bool operator==(const BuildId& other) const {
    return size == other.size && __builtin_memcmp(bytes, other.bytes, size) == 0;
  }
};

// `start` is the address at which offset 0 of the file is mapped. Never faults, even if the file is
// not mapped there any more. Makes a few system calls.
BuildId read_build_id(uintptr_t start);
// The same for a module with known segments: address v of its file is mapped at bias + v.
BuildId build_id_of_module(uintptr_t bias, const ElfW(Phdr) * segments, size_t count);

}  // namespace seemalloc::profile

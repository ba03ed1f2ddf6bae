// The number of mappings of this process, and the kernel's limit. Reads files of /proc; for reports
// only. Threads: any.
#pragma once

#include <cstdint>

namespace seemalloc::os {

struct MappingCount {
  uint64_t count = 0;
  uint64_t limit = 0;  // vm.max_map_count

  // Whether the kernel refuses new mappings. A call may need more than one, and the list of /proc
  // has one more in some kernels.
  bool is_used_up() const { return limit != 0 && count + 8 >= limit; }
};

// Returns zeroes for numbers that cannot be read.
MappingCount count_mappings(const char* maps = "/proc/self/maps",
                            const char* limit = "/proc/sys/vm/max_map_count");

}  // namespace seemalloc::os

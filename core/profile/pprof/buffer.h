// A finished profile in one anonymous mapping. The owner frees it with os::unmap_report(data,
// mapped_bytes).
#pragma once

#include <cstddef>

namespace seemalloc::profile {

struct Buffer {
  char* data;
  size_t bytes;
  size_t mapped_bytes;
};

}  // namespace seemalloc::profile

// Range: the addresses [start, end()) of huge memory.
#pragma once

#include <cstddef>
#include <cstdint>

namespace seemalloc::pages {

struct Range {
  uintptr_t start;
  size_t bytes;
  uintptr_t end() const { return start + bytes; }
};

}  // namespace seemalloc::pages

// RelocatedCode: the return addresses in unloaded code, and the range to which they are moved
// (unloaded_modules.h).
#pragma once

#include <cstdint>

namespace seemalloc::profile {

// Return addresses of calls in [start, limit) move to the same offset from `moved_to`.
struct RelocatedCode {
  uintptr_t start, limit, moved_to;

  // A return address is one past its call, which may be the last instruction of the code.
  bool contains(uintptr_t return_address) const {
    return return_address - 1 - start < limit - start;
  }
  uintptr_t operator()(uintptr_t return_address) const {
    return contains(return_address) ? return_address - start + moved_to : return_address;
  }
};

}  // namespace seemalloc::profile

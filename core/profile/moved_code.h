// Which return addresses lie in code that is gone, and where they are kept then (unloaded.h).
#pragma once

#include <cstdint>

namespace seemalloc::profile {

// Return addresses of calls in this range are to be as far from `moved_to` now.
struct MovedCode {
  uintptr_t start, limit, moved_to;

  // A return address is behind its call, which may be the last thing in the code.
  bool has(uintptr_t return_address) const { return return_address - 1 - start < limit - start; }
  uintptr_t operator()(uintptr_t return_address) const { return has(return_address) ? return_address - start + moved_to : return_address; }
};

}  // namespace seemalloc::profile

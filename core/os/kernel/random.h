// Random bits.
// Does not touch errno, allocate or lock. Threads: any, at any time, including signal handlers.
#pragma once

#include <cstdint>

namespace seemalloc::os {

// Random bits from getrandom, or else from the clock and addresses.
uint64_t random_bits();

}  // namespace seemalloc::os

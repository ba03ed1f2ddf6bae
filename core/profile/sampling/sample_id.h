#pragma once

#include <cstdint>

namespace seemalloc::profile {

// Handle of one sampled block that is alive; 0: not recorded.
using SampleId = uint32_t;

}  // namespace seemalloc::profile

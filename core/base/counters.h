// Resets counters of a process's own activity, in a forked child.
#pragma once

#include <atomic>
#include <cstdint>

namespace seemalloc {

template <typename... Counters>
void set_to_zero(Counters&... counters) {
  (counters.store(0, std::memory_order_relaxed), ...);
}

}  // namespace seemalloc

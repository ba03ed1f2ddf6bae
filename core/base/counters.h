// For a process's counters of its own activity, which a forked child resets.
#pragma once

#include <atomic>
#include <cstdint>

namespace seemalloc {

template <typename... Counters>
void set_to_zero(Counters&... counters) {
  (counters.store(0, std::memory_order_relaxed), ...);
}

}  // namespace seemalloc

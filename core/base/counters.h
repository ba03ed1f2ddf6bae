// Counters that a process keeps of itself, which its forked child begins anew.
#pragma once

#include <atomic>
#include <cstdint>

namespace seemalloc {

template <typename... Counters>
void set_to_zero(Counters&... counters) {
  (counters.store(0, std::memory_order_relaxed), ...);
}

}  // namespace seemalloc

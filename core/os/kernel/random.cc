#include "core/os/kernel/random.h"

#include <atomic>

#include "core/os/kernel/clock.h"
#include "core/os/kernel/ids.h"
#include "core/os/kernel/syscall.h"

namespace seemalloc::os {

#ifdef SEEMALLOC_FAULT_INJECTION
std::atomic<uint64_t> test_random_state{0};  // base/seed_for_test.h
#endif

uint64_t random_bits() {
  uint64_t bits = 0;
#ifdef SEEMALLOC_FAULT_INJECTION
  if (test_random_state.load(std::memory_order_relaxed) != 0) {
    bits = test_random_state.fetch_add(0x9E3779B97F4A7C15u, std::memory_order_relaxed) *
           0xBF58476D1CE4E5B9u;
    return bits ^ (bits >> 31);
  }
#endif
  constexpr long kGrndNonblock = 1;
  if (sys(SYS_getrandom, as_long(&bits), sizeof(bits), kGrndNonblock) ==
      static_cast<long>(sizeof(bits)))
    return bits;
  bits = monotonic_ns() ^ (reinterpret_cast<uintptr_t>(&bits) << 16) ^
         (static_cast<uint64_t>(thread_id()) << 40);
  bits *= 0x9E3779B97F4A7C15u;
  return bits ^ (bits >> 29);
}

}  // namespace seemalloc::os

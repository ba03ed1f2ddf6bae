// The seed of a random test: SEEMALLOC_SEED if it is set, else a new one for each process. A test
// that includes this prints it at its start, so the output of a failed test has it, also when the
// process was killed.
//
// A test draws all of its random numbers from generators that are seeded by this; several
// generators by seed + 0, 1, 2, …. In the test build the core's own random numbers
// (os::random_bits) follow from the seed, too: a single-threaded test takes the same samples again.
#pragma once

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <atomic>
#include <random>

namespace seemalloc {

#ifdef SEEMALLOC_FAULT_INJECTION
namespace os {
// In os/kernel/random.cc; 0: the kernel's random numbers.
extern std::atomic<uint64_t> test_random_state;
}  // namespace os
#endif

inline uint32_t seed_for_test() {
  static const uint32_t seed = [] {
    const char* given = getenv("SEEMALLOC_SEED");
    uint32_t chosen = given != nullptr && *given != 0
                          ? static_cast<uint32_t>(strtoull(given, nullptr, 10))
                          : std::random_device{}();
    printf("SEEMALLOC_SEED=%u\n", chosen);
    fflush(stdout);
#ifdef SEEMALLOC_FAULT_INJECTION
    os::test_random_state = (uint64_t{chosen} << 1) | 1;
#endif
    return chosen;
  }();
  return seed;
}
inline const uint32_t seed_at_start = seed_for_test();

}  // namespace seemalloc

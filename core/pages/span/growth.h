// Growth: the memory that the calling thread has taken from the OS for the heap since the last
// take_and_reset_growth(): regions, and fresh memory for huge blocks.
//
// It is counted where it happens, inside slow paths and under their locks. core/api reads it after
// these locks are released and records the stack that caused it. Threads: each has its own. Cost:
// two additions when the heap grows.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/base/compiler.h"

namespace seemalloc::pages {

struct Growth {
  size_t bytes;
  uint64_t count;
};
extern constinit thread_local Growth growth __attribute__((tls_model("initial-exec")));

inline void note_growth(size_t bytes) {
  growth.bytes += bytes;
  growth.count++;
}

inline Growth take_and_reset_growth() {
  Growth taken = growth;
  growth = Growth{};
  return taken;
}

}  // namespace seemalloc::pages

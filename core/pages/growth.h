// What the calling thread has taken from the system for the heap since somebody last asked: regions, and fresh memory for huge
// blocks.
//
// Noted where it happens, in the midst of slow paths and under their locks; core/api looks once these are released and records
// who it was for. Threads: each its own. Cost: two additions when the heap grows.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/base/compiler.h"

namespace seemalloc::pages {

struct Growth {
  size_t bytes;
  uint64_t times;
};
extern constinit thread_local Growth growth __attribute__((tls_model("initial-exec")));

inline void note_growth(size_t bytes) {
  growth.bytes += bytes;
  growth.times++;
}

inline Growth take_growth() {
  Growth taken = growth;
  growth = Growth{};
  return taken;
}

}  // namespace seemalloc::pages

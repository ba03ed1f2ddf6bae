// WantedAgain: detects huge memory that was unmapped immediately because it exceeded the cache's
// limit, and should have been kept.
//
// A program may free buffers of 64 MiB and allocate as many a moment later. If they are unmapped
// immediately, each round costs a page fault per 4 KiB, and the purge delay, which adapts to
// refaults, has no influence on it. Memory that a growing vector leaves behind is not reused: each
// of its requests is larger than the ranges freed before. So unmapped ranges are remembered for two
// delays, and a request for fresh memory that one of them would have served is a miss. After a few
// misses such memory is worth keeping for some delays. Whether it is kept in the end also depends
// on its amount (huge.cc) and on the mode.
// Pure arithmetic: times and bytes come from the caller, whose lock protects it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/base/check.h"

namespace seemalloc::pages {

class WantedAgain {
 public:
  static constexpr unsigned kRemembered = 128;
  static constexpr unsigned kMisses = 3;
  static constexpr uint64_t kDelaysKept = 16;

  void gone(size_t bytes, uint64_t now_ns) {
    gone_[next_] = {bytes, now_ns};
    next_ = (next_ + 1) % kRemembered;
  }

  // Fresh memory has been mapped. Returns whether a remembered range would have served it, and
  // subtracts the bytes from the tightest one.
  bool mapped(size_t bytes, uint64_t now_ns, uint64_t delay_ns) {
    Gone* best = nullptr;
    for (Gone& gone : gone_) {
      bool would_serve = gone.bytes >= bytes && now_ns - gone.at_ns <= 2 * delay_ns;
      if (would_serve && (best == nullptr || gone.bytes < best->bytes)) best = &gone;
    }
    if (best == nullptr) return false;
    DCHECK(best->bytes >= bytes);
    best->bytes -= bytes;
    if (now_ns - last_miss_ns_ > kDelaysKept * delay_ns) misses_ = 0;
    last_miss_ns_ = now_ns;
    if (misses_ < kMisses) misses_++;
    return true;
  }

  bool worth_keeping(uint64_t now_ns, uint64_t delay_ns) const {
    return misses_ == kMisses && now_ns - last_miss_ns_ <= kDelaysKept * delay_ns;
  }

 private:
  struct Gone {
    size_t bytes;
    uint64_t at_ns;
  };
  Gone gone_[kRemembered] = {};
  unsigned next_ = 0;
  unsigned misses_ = 0;
  uint64_t last_miss_ns_ = 0;
};

}  // namespace seemalloc::pages

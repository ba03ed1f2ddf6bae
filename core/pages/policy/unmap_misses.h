// UnmapMisses: detects huge memory that was unmapped immediately because it exceeded the cache's
// limit, and should have been kept.
//
// A program may free buffers of 64 MiB and allocate as many a moment later. If they are unmapped
// immediately, each round costs a page fault per 4 KiB, and the purge delay, which adapts to
// refaults, has no influence on it. Memory that a growing vector leaves behind is not reused: each
// of its requests is larger than the ranges freed before. So unmapped ranges are remembered for two
// delays, and a request for fresh memory that one of them would have served is a miss. After a few
// misses such memory is worth keeping for some delays. Whether it is kept in the end also depends
// on its amount (huge_caching.cc) and on the mode.
// Pure arithmetic: times and bytes come from the caller, whose lock protects it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/base/check.h"

namespace seemalloc::pages {

class UnmapMisses {
 public:
  static constexpr unsigned kMaxSavedStates = 128;
  static constexpr unsigned kMissesToKeep = 3;
  static constexpr uint64_t kDelaysToKeep = 16;

  void note_unmapped(size_t bytes, uint64_t now_ns) {
    unmapped_[next_] = {bytes, now_ns};
    next_ = (next_ + 1) % kMaxSavedStates;
  }

  // Fresh memory has been mapped. Returns whether a remembered range would have served it, and
  // subtracts the bytes from the tightest one.
  bool note_mapped(size_t bytes, uint64_t now_ns, uint64_t delay_ns) {
    UnmappedRange* best = nullptr;
    for (UnmappedRange& gone : unmapped_) {
      bool would_serve = gone.bytes >= bytes && now_ns - gone.at_ns <= 2 * delay_ns;
      if (would_serve && (best == nullptr || gone.bytes < best->bytes)) best = &gone;
    }
    if (best == nullptr) return false;
    DCHECK(best->bytes >= bytes);
    best->bytes -= bytes;
    if (now_ns - last_miss_ns_ > kDelaysToKeep * delay_ns) misses_ = 0;
    last_miss_ns_ = now_ns;
    if (misses_ < kMissesToKeep) misses_++;
    return true;
  }

  bool worth_keeping(uint64_t now_ns, uint64_t delay_ns) const {
    return misses_ == kMissesToKeep && now_ns - last_miss_ns_ <= kDelaysToKeep * delay_ns;
  }

 private:
  struct UnmappedRange {
    size_t bytes;
    uint64_t at_ns;
  };
  UnmappedRange unmapped_[kMaxSavedStates] = {};
  unsigned next_ = 0;
  unsigned misses_ = 0;
  uint64_t last_miss_ns_ = 0;
};

}  // namespace seemalloc::pages

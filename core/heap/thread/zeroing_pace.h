// ZeroingPace: decides for a heap whether the next large calloc checks the resident pages, writes
// zeros or purges (zeroing.h). Pure arithmetic. Threads: the owner of the heap.
#pragma once

#include <cstdint>

#include "core/base/check.h"

namespace seemalloc::heap {

// Decides when to check the resident pages, and what to do then. The rarity of blocks with few
// resident pages rises with each block that is found filled, and falls with each other one. All
// zero at first.
class ZeroingPace {
 public:
  // Of the filled blocks that are checked, one in 2^rarity is purged.
  static constexpr int kMaxRarity = 9;
  // Up to this rarity all blocks are checked; at the highest, one in 16.
  static constexpr int kCheckAllUpTo = 5;
  // While all blocks have few resident pages, one in four is checked.
  static constexpr int kCheckEveryLog2 = 2;

  // What to do with the next block: check it, or do the same as with the last ones.
  enum class Next : uint8_t { kCheck, kWrite, kPurge };
  Next next() {
    int rarer = rarity() <= 0 ? kCheckEveryLog2 : rarity() - kCheckAllUpTo;
    if (rarer <= 0 || ++unseen_ >= 1u << rarer) unseen_ = 0;
    if (unseen_ == 0) return Next::kCheck;
    return rarity() <= 0 ? Next::kPurge : Next::kWrite;
  }
  // Called for a block that was checked; `few`: few of its pages are resident. Returns whether to
  // purge it.
  bool should_purge(bool few) {
    if (few) {
      if (rarity() > 0) change_--;
      return true;
    }
    bool due = rarity() <= 0 || ++filled_ >= 1u << rarity();
    if (due) filled_ = 0;
    if (rarity() < kMaxRarity) change_++;
    // The same memory may be the next block again: then it is checked before it is written.
    if (due && rarity() > kCheckAllUpTo) change_ = kCheckAllUpTo - kInitialRarity;
    return due;
  }

  // The kernel does not report residency, or refuses to purge (memory locked by the program).
  void refused() { change_ = kMaxRarity - kInitialRarity; }

 private:
  static constexpr int kInitialRarity = 3;
  int rarity() const {
    DCHECK(kInitialRarity + change_ <= kMaxRarity);
    return kInitialRarity + change_;
  }

  int8_t change_;
  uint8_t unseen_;
  uint16_t filled_;
};

}  // namespace seemalloc::heap

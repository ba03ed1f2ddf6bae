// How used memory becomes zero for a large calloc: it is written, or its pages are given back and come anew, zero, where the program
// touches them.
//
// To write makes all of the block resident, with a fault for each page that is not. To give it back costs a call, and a fault for each
// page that was resident and is touched again, by whoever has the memory next. So one looks at what is resident. Memory of blocks that
// were hardly touched (tables that are hardly filled, buffers made for the worst case) is given back and stays as it is; other memory
// is written. But what was filled once, by others, would be written for ever: where hardly any is filled such memory is given back as
// well, else seldom. Figures: docs/decisions/0058.
//
// Who calls: the slow path of calloc. Threads: the owner of the heap.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/pages/span.h"

namespace seemalloc::heap {

struct ThreadHeap;

// When to look, and what to do then. How rare blocks are of which few pages are resident goes up with each that is found filled and down
// with each other one. All zero at first.
class ZeroingPace {
 public:
  static constexpr int kRarest = 9;  // of the filled blocks that are found one is given back in two to the power of the rarity
  static constexpr int kAllLookedAt = 5;  // up to here; at the rarest one block in 16 is
  static constexpr int kFewLooks = 2;  // where all have few, one block in four is looked at

  // What to do with the next block: look at it, or do as with the others of late.
  enum class Next : uint8_t { kLook, kWrite, kGiveBack };
  Next next() {
    int rarer = rarity() <= 0 ? kFewLooks : rarity() - kAllLookedAt;
    if (rarer <= 0 || ++unseen_ >= 1u << rarer) unseen_ = 0;
    if (unseen_ == 0) return Next::kLook;
    return rarity() <= 0 ? Next::kGiveBack : Next::kWrite;
  }
  // One looked at. Whether to give it back: `few` of its pages are resident, or not.
  bool gives_back(bool few) {
    if (few) {
      if (rarity() > 0) change_--;
      return true;
    }
    bool due = rarity() <= 0 || ++filled_ >= 1u << rarity();
    if (due) filled_ = 0;
    if (rarity() < kRarest) change_++;
    // It may be the next one again: it is seen, then, before it is written.
    if (due && rarity() > kAllLookedAt) change_ = kAllLookedAt - kAtFirst;
    return due;
  }

  // The kernel does not tell, or does not take it (memory locked by the program).
  void refused() { change_ = kRarest - kAtFirst; }

 private:
  static constexpr int kAtFirst = 3;
  int rarity() const { return kAtFirst + change_; }

  int8_t change_;
  uint8_t unseen_;
  uint16_t filled_;
};

// Zeroes a large block, all that is usable of it, that the calling thread, which has the heap (or none), has just been given.
void make_zero(ThreadHeap* heap, pages::Span* span);

}  // namespace seemalloc::heap

// How used memory becomes zero for a large calloc: it is written, or its pages are given back and come anew, zero, where the program
// touches them.
//
// To write makes all of the block resident, with a fault for each page that is not. To give it back costs a call, and a fault for each
// page that was resident and is touched again, by whoever has the memory next. So one looks at what is resident. Memory of blocks that
// were hardly touched (tables that are hardly filled, buffers made for the worst case) is given back and stays as it is; other memory
// is written. But what was filled once, by others, would be written for ever: as long as little is filled such memory is given back
// as well, else ever more seldom. Figures: docs/decisions/0058.
//
// Who calls: the slow path of calloc. Threads: the owner of the heap.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/pages/span.h"

namespace seemalloc::heap {

struct ThreadHeap;

// When to look, and what to do then. All zero at first.
class ZeroingPace {
 public:
  static constexpr int kMost = 9;        // filled memory is given back once in so many looks, as a power of two
  static constexpr int kMostLooks = 5;   // from here on fewer blocks are looked at: one in 16 at last
  static constexpr int kLooksAtFew = 2;  // where there are hardly any of these one in 4 is

  // What to do with the next block: look at it, or do as with the others of late.
  enum class Next : uint8_t { kLook, kWrite, kGiveBack };
  Next next() {
    int rarer = rarity() == 0 ? kLooksAtFew : rarity() - kMostLooks;
    if (rarer <= 0 || ++unseen_ >= 1u << rarer) unseen_ = 0;
    if (unseen_ == 0) return Next::kLook;
    return rarity() == 0 ? Next::kGiveBack : Next::kWrite;
  }
  // One looked at. Whether to give it back: `few` of its pages are resident, or not.
  bool gives_back(bool few) {
    if (few) {
      if (rarity() > 0) change_--;
      return true;
    }
    if (++filled_ < 1u << rarity()) return false;
    filled_ = 0;
    if (rarity() < kMost) change_++;
    return true;
  }

  // The kernel does not tell, or does not take it (memory locked by the program).
  void refused() { change_ = kMost - kAtFirst; }

 private:
  static constexpr int kAtFirst = 3;
  int rarity() const { return kAtFirst + change_; }

  int8_t change_;
  uint8_t unseen_;
  uint16_t filled_;
};

// Zeroes the first `bytes` of a large block that the calling thread, which has the heap (or none), has just been given.
void make_zero(ThreadHeap* heap, pages::Span* span, size_t bytes);

}  // namespace seemalloc::heap

// Zeroes used memory for a large calloc. It writes zeros, or purges the pages, which read as zero when the program
// touches them again.
//
// Writing makes the whole block resident, with a fault for each page that is not. Purging costs a call, and a fault for
// each page that was resident and is touched again, by the next user of the memory. So the code checks how much is
// resident. Memory of blocks that were hardly touched (nearly empty tables, buffers made for the worst case) is purged
// and stays non-resident; other memory is written. But memory that another user filled once would then be written each
// time from then on. So where few blocks are filled, filled memory is purged as well, elsewhere seldom. Figures:
// docs/decisions/0058.
//
// Caller: the slow path of calloc. Threads: the owner of the heap.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/base/check.h"
#include "core/pages/span.h"

namespace seemalloc::heap {

struct ThreadHeap;

// Decides when to check the resident pages, and what to do then. The rarity of blocks with few resident pages rises
// with each block that is found filled, and falls with each other one. All zero at first.
class ZeroingPace {
 public:
  static constexpr int kRarest = 9;  // of the filled blocks that are checked, one in 2^rarity is purged
  static constexpr int kAllLookedAt = 5;  // up to this rarity all blocks are checked; at the highest, one in 16
  static constexpr int kFewLooks = 2;  // while all blocks have few resident pages, one in four is checked

  // What to do with the next block: check it, or do the same as with the last ones.
  enum class Next : uint8_t { kLook, kWrite, kGiveBack };
  Next next() {
    int rarer = rarity() <= 0 ? kFewLooks : rarity() - kAllLookedAt;
    if (rarer <= 0 || ++unseen_ >= 1u << rarer) unseen_ = 0;
    if (unseen_ == 0) return Next::kLook;
    return rarity() <= 0 ? Next::kGiveBack : Next::kWrite;
  }
  // Called for a block that was checked; `few`: few of its pages are resident. Returns whether to purge it.
  bool gives_back(bool few) {
    if (few) {
      if (rarity() > 0) change_--;
      return true;
    }
    bool due = rarity() <= 0 || ++filled_ >= 1u << rarity();
    if (due) filled_ = 0;
    if (rarity() < kRarest) change_++;
    // The same memory may be the next block again: then it is checked before it is written.
    if (due && rarity() > kAllLookedAt) change_ = kAllLookedAt - kAtFirst;
    return due;
  }

  // The kernel does not report residency, or refuses to purge (memory locked by the program).
  void refused() { change_ = kRarest - kAtFirst; }

 private:
  static constexpr int kAtFirst = 3;
  int rarity() const {
    DCHECK(kAtFirst + change_ <= kRarest);
    return kAtFirst + change_;
  }

  int8_t change_;
  uint8_t unseen_;
  uint16_t filled_;
};

// Zeroes a large block, its whole usable size. The calling thread has `heap` (or none, null) and has just been given
// the block.
void make_zero(ThreadHeap* heap, pages::Span* span);

}  // namespace seemalloc::heap

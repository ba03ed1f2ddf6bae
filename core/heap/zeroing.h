// How used memory becomes zero for a large calloc: it is written, or its pages are given back and come anew, zero, where the program
// touches them.
//
// To write costs the same whatever becomes of the block, and makes all of it resident. To give it back costs one call, and a fault
// for each page that is touched: less where few are (tables that are hardly filled, buffers made for the worst case), much more where all
// are. Which kind of program it is shows when a block that came with no page resident is freed: what is resident of it then has
// been touched. Those are some that were fresh from the system, and now and then one that is given back to see; where three in a row
// were hardly touched all are, until one is not. Figures:
// docs/decisions/0058.
//
// Who calls: the slow paths of calloc and free. Threads: the owner of the heap.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/pages/span.h"

namespace seemalloc::heap {

struct ThreadHeap;

// When to give back and when to look. All zero at first.
class ZeroingRules {
 public:
  static constexpr uint32_t kFirstTry = 8;   // blocks written before one is given back to see
  static constexpr uint32_t kFirstFresh = 4;  // fresh blocks of which one is looked at
  static constexpr unsigned kDoublings = 9;  // of these, by tries of which nothing came, or that were in vain
  static constexpr uint32_t kEnough = 3;     // tries in a row that make it a habit
  static constexpr uint32_t kLookEvery = 8;  // blocks given back, while it is one
  static constexpr uint32_t kUnheard = 512;  // so many without a word: it is one no longer

  // Whether the next block is to be given back.
  bool gives_back() {
    if (sparse_ && ++unheard_ <= kUnheard) return true;
    sparse_ = false;
    if (++written_ <= kFirstTry << doublings_) return false;
    written_ = 0;
    later();  // those that another thread frees are not heard of here
    return true;
  }
  // Whether the next block, which comes fresh from the system, is to be marked as one to look at.
  bool marks_fresh() {
    if (sparse_ || ++fresh_ < kFirstFresh << doublings_) return false;
    fresh_ = 0;
    return true;
  }
  // A marked block is freed: whether to ask what is resident of it.
  bool looks() const { return !sparse_ || unheard_ >= kLookEvery; }
  // It has been asked.
  void saw(bool few) {
    unheard_ = 0;
    if (!few) return was_in_vain();
    doublings_ = doublings_ > 2 ? doublings_ - 2 : 0;
    if (sparse_ || ++in_a_row_ < kEnough) return;
    in_a_row_ = 0;
    sparse_ = true;
  }
  // It has been asked, and nothing is known.
  void saw_nothing() { unheard_ = 0; }
  void was_in_vain() {
    sparse_ = false;
    in_a_row_ = 0;
    later();
  }

 private:
  void later() {
    if (doublings_ < kDoublings) doublings_++;
  }

  uint32_t written_, fresh_, unheard_;
  uint8_t doublings_, in_a_row_;
  bool sparse_;
};

// The calling thread, which has the heap, is about to free a block that is marked.
void see_what_was_touched(ThreadHeap& heap, pages::Span* span);
// A large block has just come, zero, from the system, for the calling thread, which has the heap (or none).
void note_fresh(ThreadHeap* heap, pages::Span* span);
// Zeroes the first `bytes` of a large block that the calling thread, which has the heap (or none), has just been given.
void make_zero(ThreadHeap* heap, pages::Span* span, size_t bytes);

}  // namespace seemalloc::heap

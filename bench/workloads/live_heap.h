// One thread's heap of a constant size: blocks of mixed sizes and lifetimes, with a constant number
// of live bytes.
//
// Each new block evicts old ones: with equal probability one of the youngest sixteenth, or any. So
// most blocks are freed young and a few grow old, as in most programs. Sizes: each octave has the
// same number of bytes (small blocks are by far the most numerous), so that every block size
// matters.
#pragma once

#include <vector>

#include "workload.h"

namespace workload {

// A size between the two, ends included; the probability falls with the square of the size.
inline size_t mixed_size(Random& random, double smallest, double largest) {
  const double u = static_cast<double>(random.below(1 << 24)) / (1 << 24);
  return static_cast<size_t>(smallest / (1 - u * (1 - smallest / largest)));
}

// A new block with each of its pages written to.
inline char* fresh_pages(size_t bytes) {
  char* block = allocate_touched(bytes);
  for (size_t at = 0; at < bytes; at += 4096) touch(block + at, 1);
  return block;
}

class LiveHeap {
 public:
  // `expected`: capacity for this many blocks, so that this vector is not reallocated in the heap
  // that it measures.
  LiveHeap(uint64_t seed, size_t limit_bytes, size_t expected)
      : random_(seed), limit_bytes_(limit_bytes) {
    blocks_.reserve(expected);
  }

  // A new block between the two sizes, 16 bytes at least; the blocks evicted for it are passed to
  // `bury`.
  template <class Bury>
  void replace(double smallest, double largest, Bury bury) {
    const size_t bytes = mixed_size(random_, smallest, largest);
    blocks_.push_back(fresh_pages(bytes));
    memcpy(blocks_.back(), &bytes, sizeof bytes);
    live_bytes_ += bytes;
    allocated_bytes_ += bytes;
    while (live_bytes_ > limit_bytes_) bury(take_victim());
  }

  void free_all() {
    for (char* block : blocks_) free(block);
    blocks_.clear();
    live_bytes_ = 0;
  }

  Random& random() { return random_; }
  size_t live_bytes() const { return live_bytes_; }
  size_t allocated_bytes() const { return allocated_bytes_; }

 private:
  char* take_victim() {
    const size_t youngest = random_.below(2) != 0 ? blocks_.size() / 16 : blocks_.size();
    char*& place = blocks_[blocks_.size() - 1 - random_.below(youngest + (youngest == 0))];
    char* victim = place;
    place = blocks_.back();
    blocks_.pop_back();
    size_t bytes;
    memcpy(&bytes, victim, sizeof bytes);
    live_bytes_ -= bytes;
    return victim;
  }

  Random random_;
  size_t limit_bytes_;
  size_t live_bytes_ = 0, allocated_bytes_ = 0;
  std::vector<char*> blocks_;  // each begins with its size
};

}  // namespace workload

// Seams: addresses between huge memory of ours that lies side by side without being one mapping of the kernel's.
//
// Mappings that were made or moved at different times stay separate in the kernel, and older kernels move pages (mremap)
// only within one. So memory is moved from seam to seam. An address may be noted that is none in the kernel; the other way
// round a move is refused. Pure data, sorted; the owner's lock protects it. Cost: a binary search and a memmove.
#pragma once

#include <cstdint>
#include <cstring>

namespace seemalloc::pages {

class Seams {
 public:
  static constexpr unsigned kMost = 16384;

  void add(uintptr_t address) {
    unsigned i = at_or_behind(address);
    if (i < count_ && seams_[i] == address) return;
    if (count_ == kMost) {
      incomplete_ = true;
      return;
    }
    memmove(&seams_[i + 1], &seams_[i], (count_ - i) * sizeof(seams_[0]));
    seams_[i] = address;
    count_++;
  }
  // Forgets those from `first` to `last`, both included: what lies between them goes away, so nothing is side by side there.
  void remove(uintptr_t first, uintptr_t last) {
    unsigned i = at_or_behind(first), end = at_or_behind(last + 1);
    memmove(&seams_[i], &seams_[end], (count_ - end) * sizeof(seams_[0]));
    count_ -= end - i;
    if (count_ <= kMost / 8) incomplete_ = false;
  }
  // The first seam behind `start`; `end` when there is none before it.
  uintptr_t next(uintptr_t start, uintptr_t end) const {
    unsigned i = at_or_behind(start + 1);
    return i < count_ && seams_[i] < end ? seams_[i] : end;
  }
  // How many lie between the two.
  unsigned between(uintptr_t start, uintptr_t end) const { return start >= end ? 0 : at_or_behind(end) - at_or_behind(start + 1); }
  // Copies the first of those that lie between the two, at most so many. Returns how many.
  unsigned copy(uintptr_t start, uintptr_t end, uintptr_t* out, unsigned most) const {
    unsigned count = between(start, end) < most ? between(start, end) : most;
    memcpy(out, &seams_[at_or_behind(start + 1)], count * sizeof(seams_[0]));
    return count;
  }
  // False once there have been too many to note, until few are left. What was not noted then costs a refused move at most.
  bool complete() const { return !incomplete_; }

 private:
  unsigned at_or_behind(uintptr_t address) const {
    unsigned low = 0, high = count_;
    while (low < high) {
      unsigned middle = (low + high) / 2;
      if (seams_[middle] < address) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low;
  }

  // All zero at first: else all of it would be in the library's file, and read from there.
  unsigned count_ = 0;
  bool incomplete_ = false;
  uintptr_t seams_[kMost] = {};
};

}  // namespace seemalloc::pages

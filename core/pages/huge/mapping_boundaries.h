// MappingBoundaries: the mapping boundaries inside our huge memory: addresses where adjacent memory
// of ours may belong to different kernel mappings.
//
// Mappings that were made or moved at different times stay separate in the kernel, and older
// kernels move pages
// (mremap) only within one mapping. So memory is moved from boundary to boundary. A recorded
//          boundary need not exist in
// the kernel; but if a boundary is missing here, the move is refused. Pure data, sorted; the
// owner's lock protects it. Cost: a binary search and a memmove.
#pragma once

#include <cstdint>
#include <cstring>

#include "core/base/check.h"

namespace seemalloc::pages {

class MappingBoundaries {
 public:
  static constexpr unsigned kMaxBoundaries = 16384;

  void add(uintptr_t address) {
    unsigned i = lower_bound(address);
    if (i < count_ && addresses_[i] == address) return;
    if (count_ == kMaxBoundaries) {
      incomplete_ = true;
      return;
    }
    memmove(&addresses_[i + 1], &addresses_[i], (count_ - i) * sizeof(addresses_[0]));
    DCHECK((i == 0 || addresses_[i - 1] < address) && (i == count_ || address < addresses_[i + 1]));
    addresses_[i] = address;
    count_++;
  }
  // Forgets the boundaries from `first` to `last`, both included: the memory between them is
  // unmapped, so there is nothing adjacent.
  void remove(uintptr_t first, uintptr_t last) {
    unsigned i = lower_bound(first), end = lower_bound(last + 1);
    DCHECK(i <= end && end <= count_);
    memmove(&addresses_[i], &addresses_[end], (count_ - end) * sizeof(addresses_[0]));
    count_ -= end - i;
    if (count_ <= kMaxBoundaries / 8) incomplete_ = false;
  }
  // The first boundary behind `start`, or `end` when there is none before it.
  uintptr_t next(uintptr_t start, uintptr_t end) const {
    unsigned i = lower_bound(start + 1);
    return i < count_ && addresses_[i] < end ? addresses_[i] : end;
  }
  // The number of boundaries between the two addresses, both excluded.
  unsigned between(uintptr_t start, uintptr_t end) const {
    return start >= end ? 0 : lower_bound(end) - lower_bound(start + 1);
  }
  // Copies the first boundaries between the two addresses, at most `most`. Returns their number.
  unsigned copy(uintptr_t start, uintptr_t end, uintptr_t* out, unsigned most) const {
    unsigned count = between(start, end) < most ? between(start, end) : most;
    memcpy(out, &addresses_[lower_bound(start + 1)], count * sizeof(addresses_[0]));
    return count;
  }
  // False after there have been too many boundaries to record, until few are left. A boundary not
  // recorded costs at most one refused move.
  bool complete() const { return !incomplete_; }
  // The broken invariant, or null.
  const char* verify() const {
    for (unsigned i = 1; i < count_; i++) {
      if (addresses_[i - 1] >= addresses_[i])
        return "invariant mapping_boundaries.1: they are sorted, each once";
    }
    return nullptr;
  }

 private:
  unsigned lower_bound(uintptr_t address) const {
    unsigned low = 0, high = count_;
    while (low < high) {
      unsigned middle = (low + high) / 2;
      if (addresses_[middle] < address) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low;
  }

  // All zero initially: otherwise the whole array would be in the library's file and read from
  // there.
  unsigned count_ = 0;
  bool incomplete_ = false;
  uintptr_t addresses_[kMaxBoundaries] = {};
};

}  // namespace seemalloc::pages

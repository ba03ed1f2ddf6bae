// RetainedSpace: retained address ranges, which stay mapped without memory because unmapping each
// would split a mapping.
//
// Adjacent ranges are merged. A request gets the first part of one of the tightest ranges that fit,
// found by size-segregated lists.
// Pure data, records from the arena; the owner's lock protects it.
// Invariants:
//  1. ranges do not touch, are never empty, and start and end at multiples of kPageBytes.
//  2. by_start_ and by_end_ hold each range once.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/base/units.h"
#include "core/os/runtime/arena.h"
#include "core/pages/huge/address_range.h"
#include "core/pages/huge/address_table.h"

namespace seemalloc::pages {

class RetainedSpace {
 public:
  // Returns false when memory for the record is refused.
  bool put(Range range);
  // Takes the first `bytes` of a range from an address aligned to `alignment` (a power of two).
  bool take(size_t bytes, size_t alignment, Range* out);
  // Takes exactly [start, start + bytes). A range must start there.
  bool take_at(uintptr_t start, size_t bytes);
  // Takes the whole range that starts or ends at the address.
  bool take_adjacent(uintptr_t address, Range* out);
  // Takes one range of the largest size bin.
  bool take_largest(Range* out);

  // The broken invariant, or null (verify.cc). Beside the two above: 3. each range is in the bin of
  // its size; bytes() is the sum.
  const char* verify();
  size_t bytes() const { return bytes_; }
  size_t ranges() const { return by_start_.size(); }

 private:
  // Four bins for each power of two.
  static constexpr unsigned kBins = 4 * (48 - kPageShift);
  struct Record {
    Range range;
    Record* next;
    Record* previous;
  };

  static unsigned bin_of(size_t bytes);
  Record* find(size_t bytes) const;
  void insert_record(Record* record);
  void remove_record(Record* record);
  void drop(Record* record) {
    remove_record(record);
    pool_.give(record);
  }

  AddressTable<Record*> by_start_, by_end_;
  Record* bins_[kBins] = {};
  size_t bytes_ = 0;
  os::Pool<Record> pool_;
};

}  // namespace seemalloc::pages

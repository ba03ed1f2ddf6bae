// MappedRangeEdges: the boundaries of mapped huge memory, and thus its number of mapped ranges:
// contiguous, with no huge memory on either side. Each is at least one kernel mapping, and the
// kernel limits the number of mappings of a process (vm.max_map_count, 65,530 by default).
//
// An address is an edge when there is huge memory on exactly one side of it. Mapping or unmapping a
// range toggles both its ends: neighbours join and ranges split without a scan of the addresses in
// between.
// Pure data; the owner's lock protects it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/pages/huge/address_table.h"

namespace seemalloc::pages {

class MappedRangeEdges {
 public:
  // The range [start, end) is mapped or unmapped as a whole. If the table cannot grow, an edge is
  // lost and the count is off by one.
  void toggle(uintptr_t start, uintptr_t end) {
    toggle(start);
    toggle(end);
  }
  // Whether unmapping the range would leave memory on both sides, and so split a mapped range.
  bool unmap_splits_range(uintptr_t start, uintptr_t end) {
    return edges_.find(start) == nullptr && edges_.find(end) == nullptr;
  }
  size_t count() const { return edges_.size() / 2; }

 private:
  struct Nothing {};
  void toggle(uintptr_t address) {
    if (!edges_.remove(address)) edges_.insert(address, Nothing{});
  }
  AddressTable<Nothing> edges_;
};

}  // namespace seemalloc::pages

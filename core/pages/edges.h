// Edges: the borders of the huge memory that is mapped, and so how many pieces it is in. Each piece is one mapping of the kernel's
// at least, and the kernel limits how many mappings a process has (vm.max_map_count, 65,530 by default).
//
// An address is an edge where huge memory lies on one side of it and none on the other. To map a range, or to unmap it, toggles
// both its ends: neighbours join and pieces split without a look at what lies between.
// Pure data; the owner's lock protects it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/pages/address_table.h"

namespace seemalloc::pages {

class Edges {
 public:
  // The range [start, end) is being mapped or unmapped as a whole. Where memory for the record is refused the count is off by one.
  void toggle(uintptr_t start, uintptr_t end) {
    toggle(start);
    toggle(end);
  }
  // Whether to unmap the range would leave memory on both its sides: one piece more.
  bool splits(uintptr_t start, uintptr_t end) { return edges_.find(start) == nullptr && edges_.find(end) == nullptr; }
  size_t pieces() const { return edges_.size() / 2; }

 private:
  struct Nothing {};
  void toggle(uintptr_t address) {
    if (!edges_.remove(address)) edges_.insert(address, Nothing{});
  }
  AddressTable<Nothing> edges_;
};

}  // namespace seemalloc::pages

// LocationTable: numbers the distinct addresses of a profile, starting at 1. Scratch memory of one
// profile; never uses malloc. Threads: one.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/base/units.h"
#include "core/os/runtime/report_memory.h"

namespace seemalloc::profile {

class LocationTable {
 public:
  LocationTable() = default;
  LocationTable(const LocationTable&) = delete;
  LocationTable& operator=(const LocationTable&) = delete;
  ~LocationTable() {
    if (slots_ != nullptr) os::unmap_report(slots_, capacity_ * sizeof(Slot));
  }

  // Returns the address's number; `*is_new` tells whether this call assigned it. Returns 0 if
  // memory is refused.
  uint64_t number(uintptr_t address, bool* is_new) {
    *is_new = false;
    if ((count_ + 1) * 2 > capacity_ && !grow()) return 0;
    Slot& slot = find(address);
    if (slot.id == 0) {
      slot = Slot{address, ++count_};
      *is_new = true;
    }
    return slot.id;
  }

 private:
  static constexpr size_t kFirstBytes = 64 * KiB;  // a multiple of every OS page size

  struct Slot {
    uintptr_t address;
    uint64_t id;  // 0: free slot
  };

  Slot& find(uintptr_t address) {
    size_t i = (address * 0x9E3779B97F4A7C15u) >> 20;
    for (;; i++) {
      Slot& slot = slots_[i & (capacity_ - 1)];
      if (slot.id == 0 || slot.address == address) return slot;
    }
  }

  bool grow() {
    Slot* old = slots_;
    size_t old_capacity = capacity_;
    size_t capacity = old == nullptr ? kFirstBytes / sizeof(Slot) : old_capacity * 2;
    void* larger = os::map_report(capacity * sizeof(Slot));
    if (larger == nullptr) return false;
    slots_ = static_cast<Slot*>(larger);
    capacity_ = capacity;
    for (size_t i = 0; i < old_capacity; i++) {
      if (old[i].id != 0) find(old[i].address) = old[i];
    }
    if (old != nullptr) os::unmap_report(old, old_capacity * sizeof(Slot));
    return true;
  }

  Slot* slots_ = nullptr;
  size_t capacity_ = 0;  // a power of two
  uint64_t count_ = 0;
};

}  // namespace seemalloc::profile

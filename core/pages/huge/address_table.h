// AddressTable: a hash map from addresses to one-word values, with linear probing. Its memory comes
// from the arena and is never returned.
//
// Pure data; the owner's lock protects it. Cost: one or two cache lines. The table doubles when it
// is half full. Invariant: there is no free slot between the first slot of an address (given by its
// hash) and the slot that holds it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/base/check.h"
#include "core/os/runtime/arena.h"

namespace seemalloc::pages {

template <typename Value>
class AddressTable {
 public:
  // Returns null when the address is absent. An insertion may move the value.
  Value* find(uintptr_t address) {
    if (slots_ == nullptr) return nullptr;
    Slot& slot = slots_[slot_of(address)];
    return slot.address != 0 ? &slot.value : nullptr;
  }
  // Requires: the address is absent and not zero. Returns false when memory is refused.
  bool insert(uintptr_t address, Value value) {
    DCHECK(address != 0 && find(address) == nullptr);
    if (!make_room()) return false;
    slots_[slot_of(address)] = Slot{address, value};
    count_++;
    DCHECK(2 * count_ <= capacity_);
    return true;
  }
  // Returns false when the address is absent.
  bool remove(uintptr_t address) {
    if (slots_ == nullptr) return false;
    size_t hole = slot_of(address);
    if (slots_[hole].address == 0) return false;
    count_--;
    // Entries behind the removed one move up, unless that would put them in front of their own
    // first slot.
    for (size_t at = next(hole); slots_[at].address != 0; at = next(at)) {
      size_t home = hash(slots_[at].address);
      if (((at - home) & (capacity_ - 1)) < ((at - hole) & (capacity_ - 1))) continue;
      slots_[hole] = slots_[at];
      hole = at;
    }
    slots_[hole] = Slot{};
    return true;
  }
  // Ensures that the next insertion succeeds. Returns false when memory is refused.
  bool make_room() {
    if (2 * (count_ + 1) <= capacity_) return true;
    size_t capacity = capacity_ == 0 ? kFirstCapacity : 2 * capacity_;
    auto* larger = static_cast<Slot*>(os::arena_allocate(capacity * sizeof(Slot), alignof(Slot)));
    if (larger == nullptr) return false;
    Slot* old = slots_;
    size_t old_capacity = capacity_;
    slots_ = larger;
    capacity_ = capacity;
    for (size_t i = 0; i < old_capacity; i++) {
      if (old[i].address != 0) slots_[slot_of(old[i].address)] = old[i];
    }
    return true;
  }
  size_t size() const { return count_; }

 private:
  static constexpr size_t kFirstCapacity = 64;
  struct Slot {
    uintptr_t address;  // 0: free
    Value value;
  };
  size_t next(size_t slot) const { return (slot + 1) & (capacity_ - 1); }
  size_t hash(uintptr_t address) const {
    constexpr uint64_t kHashMultiplier = 0x9E3779B97F4A7C15u;
    return static_cast<size_t>((uint64_t{address >> 12} * kHashMultiplier) >> 32) & (capacity_ - 1);
  }
  // The slot that holds the address, or the free slot where it would be inserted.
  size_t slot_of(uintptr_t address) const {
    size_t slot = hash(address);
    while (slots_[slot].address != 0 && slots_[slot].address != address) slot = next(slot);
    return slot;
  }

  Slot* slots_ = nullptr;
  size_t capacity_ = 0, count_ = 0;
};

}  // namespace seemalloc::pages

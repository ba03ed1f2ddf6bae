// Interned stacks: each distinct stack is kept once and never moves, so that samples can point at it. What it says changes
// where a module goes whose code it has (unloaded.h): then no walk finds it any more.
//
// Two stacks are the same when their frames and their truncated and broken marks are. Nothing is ever given back: the
// memory is bounded by the number of distinct stacks (16 + 8 × depth bytes each, and the slots of the table).
// Threads: any; a known stack is found without a lock.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "core/profile/intern_table.h"
#include "core/profile/stack.h"

namespace seemalloc::profile {

struct InternedStack {
  uint64_t hash;
  uint32_t depth;
  bool truncated;
  bool broken;
  mutable std::atomic<bool> has_bucket;  // of samples (bucket_table.h): growth and pools keep their stacks here too

  const uintptr_t* pcs() const { return reinterpret_cast<const uintptr_t*>(this + 1); }
};

static_assert(sizeof(InternedStack) == 16);

uint64_t hash_stack(const Stack& stack);
bool same_stack(const InternedStack& interned, const Stack& stack);

class StackTable {
 public:
  constexpr StackTable() = default;
  // Requires: hash == hash_stack(stack). Null when memory is refused.
  const InternedStack* intern(const Stack& stack, uint64_t hash);
  // Null when there is none.
  const InternedStack* find(const Stack& stack, uint64_t hash) const;
  size_t size() const { return table_.size(); }
  // Whether a call in [start, limit) is in one of them. Takes no lock.
  bool any_in(uintptr_t start, uintptr_t limit) const;
  // Such calls are from now on as far behind `to`. Takes no lock: who compares or writes a stack meanwhile may see some of each.
  void move_code(uintptr_t start, uintptr_t limit, uintptr_t to);
  void lock_all() { table_.lock_all(); }
  void unlock_all() { table_.unlock_all(); }

 private:
  InternTable<InternedStack> table_;
};

}  // namespace seemalloc::profile

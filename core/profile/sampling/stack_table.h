// Interned stacks. Each distinct stack is stored once and never moves, so samples can point at it.
// The addresses in a stack change only when a module whose code they refer to is unloaded
// (unloaded_modules.h); after that no walk matches the stack.
//
// Two stacks are equal if their frames and their truncated and broken marks are equal. Memory is
// never freed: it is bounded by the number of distinct stacks (16 + 8 × depth bytes each, plus the
// slots of the table).
// Threads: any; a known stack is found without a lock.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "core/profile/sampling/intern_table.h"
#include "core/profile/sampling/stack.h"

namespace seemalloc::profile {

struct InternedStack {
  uint64_t hash;
  uint32_t depth;
  bool truncated;
  bool broken;
  // Whether the stack has a bucket of samples (bucket_table.h). The stacks of growth and pools are
  // in this table, too.
  mutable std::atomic<bool> has_bucket;

  const uintptr_t* pcs() const { return reinterpret_cast<const uintptr_t*>(this + 1); }
};

static_assert(sizeof(InternedStack) == 16);

uint64_t hash_stack(const Stack& stack);
bool same_stack(const InternedStack& interned, const Stack& stack);

class StackTable {
 public:
  constexpr StackTable() = default;
  // Requires: hash == hash_stack(stack). Returns null if memory is refused.
  const InternedStack* intern(const Stack& stack, uint64_t hash);
  // Returns null if there is none.
  const InternedStack* find(const Stack& stack, uint64_t hash) const;
  size_t size() const { return table_.size(); }
  // Whether any stack has a call in [start, limit). Takes no lock.
  bool any_in(uintptr_t start, uintptr_t limit) const;
  // Moves such calls to the same offset from `to`. Takes no lock: a thread that compares or writes
  // a stack meanwhile may see a mixture of old and new addresses.
  void relocate_code(uintptr_t start, uintptr_t limit, uintptr_t to);
  void lock_all() { table_.lock_all(); }
  void unlock_all() { table_.unlock_all(); }

 private:
  InternTable<InternedStack> table_;
};

}  // namespace seemalloc::profile

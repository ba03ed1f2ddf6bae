// FreeStackTable: the stacks that freed sampled blocks. Each Lifetimes record (one per bucket and
// way of being freed) has a list of the stacks that freed its blocks, with a count each. The length
// of a list is bounded, and so is the number of entries in all lists. A free without an entry is
// counted in the record only.
//
// Threads: `single_writer` in add() is for the one thread that adds to the record; without it, any
// thread may call. Any thread may read. A reader that loads the counts here first and the record's
// counts afterwards never finds more frees here. Memory: 24 bytes per entry, plus the stack.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "core/profile/sampling/lifetimes.h"
#include "core/profile/sampling/stack_table.h"

namespace seemalloc::profile {

struct FreeStack {
  const InternedStack* stack;
  FreeStack* next;
  std::atomic<uint64_t> count;
};

class FreeStackTable {
 public:
  static constexpr size_t kMaxEntries = 8192;         // entries in all lists
  static constexpr size_t kMaxEntriesPerRecord = 64;  // entries in one list

  constexpr FreeStackTable() = default;
  // Returns the interned stack. Returns null if the stack is new and there is no free space in the
  // record's list.
  const InternedStack* intern(const Lifetimes& lifetimes, const Stack& stack,
                              StackTable& stacks) const;
  // Counts one block of the record as freed by this stack. The record must have counted the block
  // already.
  void add(Lifetimes& lifetimes, const InternedStack* stack, bool single_writer);
  size_t size() const { return made_.load(std::memory_order_relaxed); }

 private:
  FreeStack* find_or_make(Lifetimes& lifetimes, const InternedStack* stack);
  FreeStack* make(const InternedStack* stack);

  std::atomic<size_t> made_{0};
};

}  // namespace seemalloc::profile

// Where sampled blocks were freed: each record of lifetimes (a bucket and a way of being freed) has a list of the stacks that freed
// its blocks, with the count of each. Its length is bounded, and so is the number of them all; what finds no room is counted by the
// record only.
//
// Threads: add(alone) is for the one thread that adds to the record, else anybody. Readers any; whoever reads the counts here first
// and the record's afterwards never finds more here. Memory: 24 bytes each, and the stack.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "core/profile/lifetimes.h"
#include "core/profile/stack_table.h"

namespace seemalloc::profile {

struct Death {
  const InternedStack* stack;
  Death* next;
  std::atomic<uint64_t> count;
};

class Deaths {
 public:
  static constexpr size_t kMost = 8192;      // of all records
  static constexpr size_t kMostOfOne = 64;   // of one

  constexpr Deaths() = default;
  // The stack as it is kept. Null where it is a new one for which there is no room in the record's list.
  const InternedStack* intern(const Lifetimes& lifetimes, const Stack& stack, StackTable& stacks) const;
  // One of the blocks that the record has counted was freed by this stack.
  void add(Lifetimes& lifetimes, const InternedStack* stack, bool alone);
  size_t size() const { return made_.load(std::memory_order_relaxed); }

 private:
  Death* find_or_make(Lifetimes& lifetimes, const InternedStack* stack);
  Death* make(const InternedStack* stack);

  std::atomic<size_t> made_{0};
};

}  // namespace seemalloc::profile

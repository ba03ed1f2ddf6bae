#include "core/profile/sampling/free_stacks.h"

#include "core/os/runtime/arena.h"

namespace seemalloc::profile {

const InternedStack* FreeStackTable::intern(const Lifetimes& lifetimes, const Stack& stack,
                                            StackTable& stacks) const {
  uint64_t hash = hash_stack(stack);
  if (const InternedStack* known = stacks.find(stack, hash)) return known;
  size_t length = 0;
  for (const FreeStack* each = lifetimes.free_stacks(); each != nullptr; each = each->next)
    length++;
  return length < kMaxEntriesPerRecord && size() < kMaxEntries ? stacks.intern(stack, hash)
                                                               : nullptr;
}

FreeStack* FreeStackTable::find_or_make(Lifetimes& lifetimes, const InternedStack* stack) {
  FreeStack* fresh = nullptr;
  FreeStack* found = nullptr;
  for (FreeStack* first = lifetimes.free_stacks();;) {
    size_t length = 0;
    for (found = first; found != nullptr && found->stack != stack; found = found->next) length++;
    if (found != nullptr || length >= kMaxEntriesPerRecord) break;
    if (fresh == nullptr && (fresh = make(stack)) == nullptr) return nullptr;
    fresh->next = first;
    if (lifetimes.push_free_stack(&first, fresh)) return fresh;
  }
  // If another thread inserted the stack first, our entry is lost: the arena cannot free memory.
  if (fresh != nullptr) made_.fetch_sub(1, std::memory_order_relaxed);
  return found;
}

FreeStack* FreeStackTable::make(const InternedStack* stack) {
  FreeStack* fresh = nullptr;
  if (made_.fetch_add(1, std::memory_order_relaxed) < kMaxEntries)
    fresh = static_cast<FreeStack*>(os::arena_allocate(sizeof(FreeStack), alignof(FreeStack)));
  if (fresh == nullptr) {
    made_.fetch_sub(1, std::memory_order_relaxed);
  } else {
    fresh->stack = stack;
  }
  return fresh;
}

void FreeStackTable::add(Lifetimes& lifetimes, const InternedStack* stack, bool single_writer) {
  FreeStack* death = lifetimes.free_stacks();
  if (death == nullptr || death->stack != stack) death = find_or_make(lifetimes, stack);
  if (death == nullptr) return;
  // Release: a reader that sees this count also sees that the record has counted the block.
  if (single_writer) {
    death->count.store(death->count.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  } else {
    death->count.fetch_add(1, std::memory_order_release);
  }
}

}  // namespace seemalloc::profile

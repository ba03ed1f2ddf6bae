#include "core/profile/sampling/deaths.h"

#include "core/os/runtime/arena.h"

namespace seemalloc::profile {

const InternedStack* Deaths::intern(const Lifetimes& lifetimes, const Stack& stack,
                                    StackTable& stacks) const {
  uint64_t hash = hash_stack(stack);
  if (const InternedStack* known = stacks.find(stack, hash)) return known;
  size_t length = 0;
  for (const Death* each = lifetimes.deaths(); each != nullptr; each = each->next) length++;
  return length < kMostOfOne && size() < kMost ? stacks.intern(stack, hash) : nullptr;
}

Death* Deaths::find_or_make(Lifetimes& lifetimes, const InternedStack* stack) {
  Death* fresh = nullptr;
  Death* found = nullptr;
  for (Death* first = lifetimes.deaths();;) {
    size_t length = 0;
    for (found = first; found != nullptr && found->stack != stack; found = found->next) length++;
    if (found != nullptr || length >= kMostOfOne) break;
    if (fresh == nullptr && (fresh = make(stack)) == nullptr) return nullptr;
    fresh->next = first;
    if (lifetimes.put_death(&first, fresh)) return fresh;
  }
  // If another thread inserted the stack first, our entry is lost: the arena cannot free memory.
  if (fresh != nullptr) made_.fetch_sub(1, std::memory_order_relaxed);
  return found;
}

Death* Deaths::make(const InternedStack* stack) {
  Death* fresh = nullptr;
  if (made_.fetch_add(1, std::memory_order_relaxed) < kMost)
    fresh = static_cast<Death*>(os::arena_allocate(sizeof(Death), alignof(Death)));
  if (fresh == nullptr) {
    made_.fetch_sub(1, std::memory_order_relaxed);
  } else {
    fresh->stack = stack;
  }
  return fresh;
}

void Deaths::add(Lifetimes& lifetimes, const InternedStack* stack, bool alone) {
  Death* death = lifetimes.deaths();
  if (death == nullptr || death->stack != stack) death = find_or_make(lifetimes, stack);
  if (death == nullptr) return;
  // Release: a reader that sees this count also sees that the record has counted the block.
  if (alone) {
    death->count.store(death->count.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  } else {
    death->count.fetch_add(1, std::memory_order_release);
  }
}

}  // namespace seemalloc::profile

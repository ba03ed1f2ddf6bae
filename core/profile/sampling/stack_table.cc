#include "core/profile/sampling/stack_table.h"

#include "core/profile/sampling/relocated_code.h"

namespace seemalloc::profile {

uint64_t hash_stack(const Stack& stack) {
  DCHECK(stack.depth <= kMaxStackDepth);
  uint64_t hash = stack.depth * 4u + stack.truncated * 2u + stack.broken;
  // Two frames per step: the multiplications form a dependency chain, so their number determines
  // the cost.
  size_t i = 0;
  for (; i + 2 <= stack.depth; i += 2) hash = mix(hash ^ stack.pcs[i], stack.pcs[i + 1]);
  if (i < stack.depth) hash = mix(hash ^ stack.pcs[i], 0);
  return mix(hash, hash);
}

bool same_stack(const InternedStack& interned, const Stack& stack) {
  if (interned.depth != stack.depth) return false;
  if (interned.truncated != stack.truncated || interned.broken != stack.broken) return false;
  const uintptr_t* pcs = interned.pcs();
  for (size_t i = 0; i < stack.depth; i++) {
    if (__atomic_load_n(&pcs[i], __ATOMIC_RELAXED) != stack.pcs[i]) return false;
  }
  return true;
}

bool StackTable::any_in(uintptr_t start, uintptr_t limit) const {
  RelocatedCode code{start, limit, 0};
  bool found = false;
  table_.for_each([&](const InternedStack& stack) {
    for (size_t i = 0; !found && i < stack.depth; i++)
      found = code.contains(__atomic_load_n(&stack.pcs()[i], __ATOMIC_RELAXED));
  });
  return found;
}

void StackTable::relocate_code(uintptr_t start, uintptr_t limit, uintptr_t to) {
  RelocatedCode code{start, limit, to};
  table_.for_each([&](InternedStack& stack) {
    uintptr_t* pcs = const_cast<uintptr_t*>(stack.pcs());
    for (size_t i = 0; i < stack.depth; i++) {
      if (code.contains(pcs[i])) __atomic_store_n(&pcs[i], code(pcs[i]), __ATOMIC_RELAXED);
    }
  });
}

const InternedStack* StackTable::find(const Stack& stack, uint64_t hash) const {
  return table_.find(hash, [&](const InternedStack& known) { return same_stack(known, stack); });
}

const InternedStack* StackTable::intern(const Stack& stack, uint64_t hash) {
  auto equal = [&](const InternedStack& known) { return same_stack(known, stack); };
  auto make = [&]() -> InternedStack* {
    size_t bytes = sizeof(InternedStack) + stack.depth * sizeof(uintptr_t);
    auto* fresh = static_cast<InternedStack*>(os::arena_allocate(bytes, alignof(InternedStack)));
    if (fresh == nullptr) return nullptr;
    fresh->hash = hash;
    fresh->depth = stack.depth;
    fresh->truncated = stack.truncated;
    fresh->broken = stack.broken;
    uintptr_t* pcs = reinterpret_cast<uintptr_t*>(fresh + 1);
    for (size_t i = 0; i < stack.depth; i++) pcs[i] = stack.pcs[i];
    return fresh;
  };
  return table_.find_or_insert(hash, equal, make);
}

}  // namespace seemalloc::profile

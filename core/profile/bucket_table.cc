#include "core/profile/bucket_table.h"

namespace seemalloc::profile {

namespace {
uint64_t hash_bucket(uint64_t stack_hash, const BucketKey& key) {
  return mix(stack_hash ^ key.allocated_bytes, mix(key.drawn_bytes ^ key.traits << 48, key.interval_bytes));
}
}  // namespace

Bucket* BucketTable::intern(const Stack& stack, const BucketKey& key, StackTable& stacks, const Recorder* owner) {
  uint64_t stack_hash = hash_stack(stack);
  auto equal = [&](const Bucket& known) { return known.key == key && same_stack(*known.stack, stack); };
  if (Bucket* known = table_.find(hash_bucket(stack_hash, key), equal)) return known;
  const InternedStack* interned = stacks.intern(stack, stack_hash);
  return interned == nullptr ? nullptr : intern(*interned, key, owner);
}

Bucket* BucketTable::intern(const InternedStack& stack, const BucketKey& key, const Recorder* owner) {
  uint64_t hash = hash_bucket(stack.hash, key);
  // A stack is interned once, so its address is its identity.
  auto equal = [&](const Bucket& known) { return known.key == key && known.stack == &stack; };
  auto make = [&]() -> Bucket* {
    auto* fresh = static_cast<Bucket*>(os::arena_allocate(sizeof(Bucket), alignof(Bucket)));
    if (fresh == nullptr) return nullptr;
    fresh->hash = hash;
    fresh->stack = &stack;
    fresh->key = key;
    fresh->owner = owner;
    return fresh;
  };
  return table_.find_or_insert(hash, equal, make);
}

}  // namespace seemalloc::profile

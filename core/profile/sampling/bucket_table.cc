#include "core/profile/sampling/bucket_table.h"

#include "core/profile/sampling/sampler.h"

namespace seemalloc::profile {

namespace {
uint64_t hash_bucket(uint64_t stack_hash, const BucketKey& key) {
  return mix(stack_hash ^ key.allocated_bytes,
             mix(key.sampled_bytes ^ uint64_t{key.traits} << 48, key.interval_bytes));
}
}  // namespace

// Returns null if memory is refused.
Lifetimes* Bucket::make_lifetimes(FreedBy by) {
  Lifetimes* known = nullptr;
  auto* fresh = static_cast<Lifetimes*>(os::arena_allocate(sizeof(Lifetimes), kCacheLineBytes));
  if (fresh == nullptr) return nullptr;
  // If two threads race, one record is lost: the arena cannot free memory.
  return (this->*lifetimes_member(by))
                 .compare_exchange_strong(known, fresh, std::memory_order_acq_rel)
             ? fresh
             : known;
}

bool Bucket::count_free(FreedBy by, uint64_t lived_ns, size_t requested_bytes) {
  Lifetimes* record = lifetimes(by);
  if (SEEMALLOC_UNLIKELY(record == nullptr)) record = make_lifetimes(by);
  if (record != nullptr)
    by == FreedBy::kBucketOwner ? record->add_single_writer(lived_ns) : record->add(lived_ns);
  if (by == FreedBy::kBucketOwner) {
    owner_freed_requested_bytes.store(
        owner_freed_requested_bytes.load(std::memory_order_relaxed) + requested_bytes,
        std::memory_order_release);
  } else {
    shared_freed_requested_bytes.fetch_add(requested_bytes, std::memory_order_release);
  }
  if (by == FreedBy::kOtherThread) {
    remote_frees.fetch_add(1, std::memory_order_release);
  } else if (by == FreedBy::kBucketOwner) {
    owner_frees.store(owner_frees.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  } else {
    shared_frees.fetch_add(1, std::memory_order_release);
  }
  return record != nullptr;
}

Bucket* BucketTable::intern(const Stack& stack, const BucketKey& key, StackTable& stacks,
                            uint32_t owner) {
  uint64_t stack_hash = hash_stack(stack);
  auto equal = [&](const Bucket& known) {
    return known.key == key && same_stack(*known.stack, stack);
  };
  if (Bucket* known = table_.find(hash_bucket(stack_hash, key), equal)) return known;
  const InternedStack* interned = stacks.intern(stack, stack_hash);
  return interned == nullptr ? nullptr : intern(*interned, key, owner);
}

Bucket* BucketTable::intern(const InternedStack& stack, const BucketKey& key, uint32_t owner) {
  uint64_t hash = hash_bucket(stack.hash, key);
  // A stack is interned once, so its address identifies it.
  auto equal = [&](const Bucket& known) { return known.key == key && known.stack == &stack; };
  auto make = [&]() -> Bucket* {
    auto* fresh = static_cast<Bucket*>(os::arena_allocate(sizeof(Bucket), alignof(Bucket)));
    if (fresh == nullptr) return nullptr;
    fresh->hash = hash;
    fresh->stack = &stack;
    fresh->key = key;
    fresh->owner = owner;
    double weight = sample_weight(key.sampled_bytes, key.interval_bytes);
    fresh->weighted_bytes =
        static_cast<int64_t>(weight * static_cast<double>(key.allocated_bytes) + 0.5);
    if (!stack.has_bucket.exchange(true, std::memory_order_relaxed))
      stacks_.fetch_add(1, std::memory_order_relaxed);
    return fresh;
  };
  return table_.find_or_insert(hash, equal, make);
}

}  // namespace seemalloc::profile

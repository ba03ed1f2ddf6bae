// Buckets: the samples of one stack, one size and one sampling probability, counted together.
//
// Counts are whole samples and the weight is the same for all of a bucket, so sums neither drift nor leave a remainder: when
// every sample of a bucket is freed, its in-use figures are exactly zero. Rows of one size each are what keeps
// estimates of mixed sizes unbiased.
// Threads: any; a known bucket is found without a lock. Counters only go up: each sample costs one atomic addition when it
// is made and one when it ends. A reader that loads `left` first never sees more leave than came.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "core/profile/intern_table.h"
#include "core/profile/stack_table.h"

namespace seemalloc::profile {

struct BucketKey {
  size_t allocated_bytes;   // what each block takes now
  size_t drawn_bytes;       // what it took when it was sampled: its probability, which resizing does not change
  uint64_t interval_bytes;  // the mean interval it was sampled with

  bool operator==(const BucketKey&) const = default;
};

struct alignas(kCacheLineBytes) Bucket {
  uint64_t hash;
  const InternedStack* stack;
  BucketKey key;
  std::atomic<uint64_t> alloc_samples;  // ever; not those that were resized into this bucket
  std::atomic<uint64_t> resized_into;
  std::atomic<uint64_t> left;  // freed, or resized into another bucket; its release pairs with the acquire of readers
};
static_assert(sizeof(Bucket) == kCacheLineBytes);

class BucketTable {
 public:
  constexpr BucketTable() = default;
  // The bucket of this stack and key, made if there is none. Null when memory is refused.
  Bucket* intern(const Stack& stack, const BucketKey& key, StackTable& stacks);
  Bucket* intern(const InternedStack& stack, const BucketKey& key);
  template <typename Visit>
  void for_each(Visit visit) const {
    table_.for_each(visit);
  }
  size_t size() const { return table_.size(); }
  void lock_all() { table_.lock_all(); }
  void unlock_all() { table_.unlock_all(); }

 private:
  InternTable<Bucket> table_;
};

}  // namespace seemalloc::profile

// Buckets: the samples of one stack, one size and one sampling probability (and a few traits), counted together.
//
// Counts are whole samples and the weight is the same for all of a bucket, so sums neither drift nor leave a remainder:
// when every sample of a bucket is freed, its in-use figures are exactly zero. Rows of one size each are what keeps
// estimates of mixed sizes unbiased.
// Threads: any; a known bucket is found without a lock. The thread whose recorder made the bucket counts its samples by
// plain stores, all others by atomic additions. A reader that loads what left before what came never sees more leave
// than came.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "core/base/compiler.h"
#include "core/profile/intern_table.h"
#include "core/profile/stack_table.h"

namespace seemalloc::profile {

struct Recorder;

struct BucketKey {
  size_t allocated_bytes;   // what each block takes now
  size_t drawn_bytes;       // what it took when it was sampled: its probability, which resizing does not change
  uint64_t interval_bytes;  // the mean interval it was sampled with
  uint64_t traits = 0;      // see below

  // Of blocks that are far larger than what was asked for: 1 + its logarithm, rounded up. Else 0.
  unsigned asked_log2() const { return traits & kAsked; }
  // In place of blocks that realloc copied.
  bool moved() const { return (traits & kMoved) != 0; }
  static constexpr uint64_t kAsked = 0xff, kMoved = 0x100;

  bool operator==(const BucketKey&) const = default;
};

struct Bucket {
  uint64_t hash;
  const InternedStack* stack;
  BucketKey key;
  const Recorder* owner;  // who made it: no other may change own_alloc and own_left. Null: made without a recorder
  std::atomic<uint64_t> own_alloc, own_left;
  std::atomic<uint64_t> alloc;  // samples ever drawn, without own_alloc and those that were resized into this bucket
  std::atomic<uint64_t> left;   // freed or resized into another, without the others that left; less those resized into this one
  std::atomic<uint64_t> left_elsewhere;  // freed by another thread than the one that allocated them

  void count_alloc(const Recorder* by) {
    if (by == owner && by != nullptr) {
      own_alloc.store(own_alloc.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    } else {
      alloc.fetch_add(1, std::memory_order_relaxed);
    }
  }
  // Release: whoever sees that a sample left sees that it came. Pairs with read_bucket().
  void count_left(const Recorder* by, bool elsewhere) {
    if (SEEMALLOC_UNLIKELY(elsewhere)) {
      left_elsewhere.fetch_add(1, std::memory_order_release);
    } else if (by == owner && by != nullptr) {
      own_left.store(own_left.load(std::memory_order_relaxed) + 1, std::memory_order_release);
    } else {
      left.fetch_add(1, std::memory_order_release);
    }
  }
};
static_assert(sizeof(Bucket) == 96);

class BucketTable {
 public:
  constexpr BucketTable() = default;
  // The bucket of this stack and key, made (for `owner`) if there is none. Null when memory is refused.
  Bucket* intern(const Stack& stack, const BucketKey& key, StackTable& stacks, const Recorder* owner = nullptr);
  Bucket* intern(const InternedStack& stack, const BucketKey& key, const Recorder* owner = nullptr);
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

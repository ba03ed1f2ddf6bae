// Buckets: the samples of one stack, one size and one sampling probability (and a few traits), counted together.
//
// Counts are whole samples and the weight is the same for all of a bucket, so sums neither drift nor leave a remainder:
// when every sample of a bucket is freed, its in-use figures are exactly zero. Rows of one size each are what keeps
// estimates of mixed sizes unbiased.
// Threads: any; a known bucket is found without a lock. The thread that made the bucket counts its own samples by plain stores while it has
// its recorder to itself, all others by atomic additions. A reader that loads what left before what came never sees more leave
// than came. Bytes in a bucket: 192, and 128 for each way in which its samples have been freed (lifetimes.h).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "core/base/compiler.h"
#include "core/base/units.h"
#include "core/profile/intern_table.h"
#include "core/profile/lifetimes.h"
#include "core/profile/stack_table.h"

namespace seemalloc::profile {

struct BucketKey {
  size_t allocated_bytes;   // what each block takes now
  size_t drawn_bytes;       // what it took when it was sampled: its probability, which resizing does not change
  uint64_t interval_bytes : 54;  // the mean interval it was sampled with
  uint64_t traits : 10 = 0;      // see below

  // Of blocks that are far larger than what was asked for: 1 + its logarithm, rounded up. Else 0.
  unsigned asked_log2() const { return traits & kAsked; }
  // In place of blocks that realloc copied.
  bool moved() const { return (traits & kMoved) != 0; }
  static constexpr uint64_t kAsked = 0xff, kMoved = 0x100;

  bool operator==(const BucketKey&) const = default;
};

// In lines of the processor's cache by who writes them: the threads that share a bucket do not take its owner's counts from it.
struct Bucket {
  // Nobody but who makes it, and at_peak at a new mark.
  alignas(kCacheLineBytes) uint64_t hash;
  BucketKey key;
  const InternedStack* stack;
  uint32_t owner;  // the thread that made it (sampled_threads.h): no other may change own_alloc and own_left. 0: made without a recorder
  int64_t weighted_bytes;         // that one sample stands for now
  std::atomic<uint64_t> at_peak;  // peak.h: epoch << 32 | live samples
  // Its owner.
  alignas(kCacheLineBytes) std::atomic<uint64_t> own_alloc;
  std::atomic<uint64_t> own_left;
  std::atomic<uint64_t> own_asked;  // bytes that the program asked for, of own_alloc
  std::atomic<uint64_t> own_asked_left;  // the same, of own_left
  std::atomic<Lifetimes*> own_lifetimes;
  std::atomic<uint64_t> mark_alloc, mark_live;  // what the counts were at the baseline (records.h)
  // All others.
  alignas(kCacheLineBytes) std::atomic<uint64_t> alloc;  // samples ever drawn, without own_alloc and those that were resized into this bucket
  std::atomic<uint64_t> left;   // freed or resized into another, without the others that left; less those resized into this one
  std::atomic<uint64_t> left_elsewhere;  // freed by another thread than the one that allocated them
  std::atomic<uint64_t> asked;  // as own_asked, of alloc
  std::atomic<uint64_t> asked_left;  // the same, of left and left_elsewhere; less that of samples that were resized into this bucket
  std::atomic<Lifetimes*> same_lifetimes, elsewhere_lifetimes;

  // Of those that were freed this way; null while none was.
  Lifetimes* lifetimes(FreedBy by) const {
    return (this->*place_of(by)).load(std::memory_order_acquire);
  }

  // A sample of `thread`, the calling one; `alone`: it has its recorder.
  void count_alloc(uint32_t thread, bool alone, size_t asked_bytes) {
    if (alone && thread == owner) {
      own_alloc.store(own_alloc.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
      own_asked.store(own_asked.load(std::memory_order_relaxed) + asked_bytes, std::memory_order_relaxed);
    } else {
      alloc.fetch_add(1, std::memory_order_relaxed);
      asked.fetch_add(asked_bytes, std::memory_order_relaxed);
    }
  }
  // A sample of the calling thread, which has its recorder, has been freed by it and lived so long. False, and nothing is done, where that
  // is for count_left(). Release: whoever sees that a sample left sees that it came. Pairs with read_bucket().
  SEEMALLOC_ALWAYS_INLINE bool count_left_alone(uint32_t thread, uint64_t lived_ns, size_t asked_bytes) {
    Lifetimes* own = own_lifetimes.load(std::memory_order_relaxed);
    if (SEEMALLOC_UNLIKELY(thread != owner || own == nullptr)) return false;
    own->add_alone(lived_ns);
    own_asked_left.store(own_asked_left.load(std::memory_order_relaxed) + asked_bytes, std::memory_order_release);
    own_left.store(own_left.load(std::memory_order_relaxed) + 1, std::memory_order_release);
    return true;
  }
  // The same, however it was freed. False when memory for its lifetime is refused.
  bool count_left(FreedBy by, uint64_t lived_ns, size_t asked_bytes);
  uint64_t live_samples() const {
    uint64_t gone = own_left.load(std::memory_order_acquire) + left_elsewhere.load(std::memory_order_acquire);
    gone += left.load(std::memory_order_acquire);
    return own_alloc.load(std::memory_order_relaxed) + alloc.load(std::memory_order_relaxed) - gone;
  }

 private:
  static constexpr std::atomic<Lifetimes*> Bucket::*place_of(FreedBy by) {
    return by == FreedBy::kOwner ? &Bucket::own_lifetimes : by == FreedBy::kSame ? &Bucket::same_lifetimes : &Bucket::elsewhere_lifetimes;
  }
  Lifetimes* make_lifetimes(FreedBy by);
};
static_assert(sizeof(Bucket) == 192);

class BucketTable {
 public:
  constexpr BucketTable() = default;
  // The bucket of this stack and key, made (for `owner`) if there is none. Null when memory is refused.
  Bucket* intern(const Stack& stack, const BucketKey& key, StackTable& stacks, uint32_t owner = 0);
  Bucket* intern(const InternedStack& stack, const BucketKey& key, uint32_t owner = 0);
  template <typename Visit>
  void for_each(Visit visit) const {
    table_.for_each(visit);
  }
  size_t size() const { return table_.size(); }
  // Distinct stacks of buckets.
  size_t stacks() const { return stacks_.load(std::memory_order_relaxed); }
  void lock_all() { table_.lock_all(); }
  void unlock_all() { table_.unlock_all(); }

 private:
  InternTable<Bucket> table_;
  std::atomic<size_t> stacks_{0};
};

}  // namespace seemalloc::profile

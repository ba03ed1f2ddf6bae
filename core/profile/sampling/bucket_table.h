// Bucket: the counters of all samples with the same stack, size and sampling probability (and a few
// traits).
//
// Counts are whole samples, and all samples of a bucket have the same weight. So sums neither drift
// nor leave a remainder: when every sample of a bucket is freed, its live figures are exactly zero.
// One size per bucket keeps estimates of mixed sizes unbiased.
// Threads: any; a known bucket is found without a lock. The thread that made a bucket (its owner)
// counts its own samples with plain stores while it holds its recorder; all other counting uses
// atomic additions. A reader that loads the counts of frees before the counts of allocations never
// sees more frees than allocations. Memory: 192 bytes per bucket, plus 128 for each way in which
// its samples have been freed (lifetimes.h).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "core/base/compiler.h"
#include "core/base/units.h"
#include "core/profile/sampling/intern_table.h"
#include "core/profile/sampling/lifetimes.h"
#include "core/profile/sampling/stack_table.h"

namespace seemalloc::profile {

struct BucketKey {
  size_t allocated_bytes;  // size of each block now
  // Its size when it was sampled; determines the probability, which resizing does not change.
  size_t drawn_bytes;
  uint64_t interval_bytes : 54;  // mean sampling interval at that time
  uint64_t traits : 10 = 0;      // see below

  // For blocks that are far larger than requested: 1 + log2 of the requested size, rounded up.
  // Otherwise 0.
  unsigned asked_log2() const { return traits & kAsked; }
  // Whether realloc copied another block into these.
  bool moved() const { return (traits & kMoved) != 0; }
  static constexpr uint64_t kAsked = 0xff, kMoved = 0x100;

  bool operator==(const BucketKey&) const = default;
};

// Grouped into cache lines by writer, so that threads that share a bucket do not contend for its
// owner's counters.
struct Bucket {
  // Written by the creator only, except at_peak, which is written at a new high-water mark.
  alignas(kCacheLineBytes) uint64_t hash;
  BucketKey key;
  const InternedStack* stack;
  // The thread that made it (sampled_threads.h); no other changes own_alloc and own_left. 0: made
  // without a recorder.
  uint32_t owner;
  int64_t weighted_bytes;         // bytes that one sample stands for now
  std::atomic<uint64_t> at_peak;  // peak.h: epoch << 32 | live samples
  // Written by the owner.
  alignas(kCacheLineBytes) std::atomic<uint64_t> own_alloc;
  std::atomic<uint64_t> own_left;
  std::atomic<uint64_t> own_asked;       // requested bytes of own_alloc
  std::atomic<uint64_t> own_asked_left;  // requested bytes of own_left
  std::atomic<Lifetimes*> own_lifetimes;
  std::atomic<uint64_t> mark_alloc, mark_live;  // the counts at the baseline (records.h)
  // Written by all other threads.
  // Samples ever drawn, except those in own_alloc and those resized into this bucket.
  alignas(kCacheLineBytes) std::atomic<uint64_t> alloc;
  // Samples freed or resized into another bucket, except those in own_left and left_elsewhere;
  // minus those resized into this one.
  std::atomic<uint64_t> left;
  // Freed by another thread than the one that allocated them.
  std::atomic<uint64_t> left_elsewhere;
  std::atomic<uint64_t> asked;  // requested bytes of alloc
  // Requested bytes of left and left_elsewhere; minus those of samples resized into this bucket.
  std::atomic<uint64_t> asked_left;
  std::atomic<Lifetimes*> same_lifetimes, elsewhere_lifetimes;

  // Lifetimes of the samples that were freed this way; null while there are none.
  Lifetimes* lifetimes(FreedBy by) const {
    return (this->*place_of(by)).load(std::memory_order_acquire);
  }

  // Counts a sample of `thread`, the calling one. `alone`: the thread holds its recorder.
  void count_alloc(uint32_t thread, bool alone, size_t asked_bytes) {
    if (alone && thread == owner) {
      own_alloc.store(own_alloc.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
      own_asked.store(own_asked.load(std::memory_order_relaxed) + asked_bytes,
                      std::memory_order_relaxed);
    } else {
      alloc.fetch_add(1, std::memory_order_relaxed);
      asked.fetch_add(asked_bytes, std::memory_order_relaxed);
    }
  }
  // Counts the free of a sample by the thread that allocated it, `thread`, the calling one, which
  // holds its recorder. Returns false and does nothing if count_left() has to be called instead.
  // Release: a reader that sees the free also sees the allocation. Pairs with read_bucket().
  SEEMALLOC_ALWAYS_INLINE bool count_left_alone(uint32_t thread, uint64_t lived_ns,
                                                size_t asked_bytes) {
    Lifetimes* own = own_lifetimes.load(std::memory_order_relaxed);
    if (SEEMALLOC_UNLIKELY(thread != owner || own == nullptr)) return false;
    own->add_alone(lived_ns);
    own_asked_left.store(own_asked_left.load(std::memory_order_relaxed) + asked_bytes,
                         std::memory_order_release);
    own_left.store(own_left.load(std::memory_order_relaxed) + 1, std::memory_order_release);
    return true;
  }
  // The same, for any kind of free. Returns false if memory for the lifetime is refused; the free
  // is counted all the same.
  bool count_left(FreedBy by, uint64_t lived_ns, size_t asked_bytes);
  uint64_t live_samples() const {
    uint64_t gone =
        own_left.load(std::memory_order_acquire) + left_elsewhere.load(std::memory_order_acquire);
    gone += left.load(std::memory_order_acquire);
    return own_alloc.load(std::memory_order_relaxed) + alloc.load(std::memory_order_relaxed) - gone;
  }

 private:
  static constexpr std::atomic<Lifetimes*> Bucket::*place_of(FreedBy by) {
    return by == FreedBy::kOwner  ? &Bucket::own_lifetimes
           : by == FreedBy::kSame ? &Bucket::same_lifetimes
                                  : &Bucket::elsewhere_lifetimes;
  }
  Lifetimes* make_lifetimes(FreedBy by);
};
static_assert(sizeof(Bucket) == 192);

class BucketTable {
 public:
  constexpr BucketTable() = default;
  // Returns the bucket of this stack and key; makes it (for `owner`) if there is none. Returns null
  // if memory is refused.
  Bucket* intern(const Stack& stack, const BucketKey& key, StackTable& stacks, uint32_t owner = 0);
  Bucket* intern(const InternedStack& stack, const BucketKey& key, uint32_t owner = 0);
  template <typename Visit>
  void for_each(Visit visit) const {
    table_.for_each(visit);
  }
  size_t size() const { return table_.size(); }
  // The number of distinct stacks of buckets.
  size_t stacks() const { return stacks_.load(std::memory_order_relaxed); }
  void lock_all() { table_.lock_all(); }
  void unlock_all() { table_.unlock_all(); }

 private:
  InternTable<Bucket> table_;
  std::atomic<size_t> stacks_{0};
};

}  // namespace seemalloc::profile

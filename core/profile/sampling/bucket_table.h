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
  size_t sampled_bytes;
  uint64_t interval_bytes : 54;  // mean sampling interval at that time
  uint64_t traits : 10 = 0;      // see below

  // For blocks that are far larger than requested: 1 + log2 of the requested size, rounded up.
  // Otherwise 0.
  unsigned requested_log2() const { return traits & kRequested; }
  // Whether realloc copied another block into these.
  bool by_realloc() const { return (traits & kByRealloc) != 0; }
  static constexpr uint64_t kRequested = 0xff, kByRealloc = 0x100;

  bool operator==(const BucketKey&) const = default;
};

// Grouped into cache lines by writer, so that threads that share a bucket do not contend for its
// owner's counters.
struct Bucket {
  // Written by the creator only, except at_peak, which is written at a new high-water mark.
  alignas(kCacheLineBytes) uint64_t hash;
  BucketKey key;
  const InternedStack* stack;
  // The thread that made it (thread_numbers.h); no other changes owner_allocs and owner_frees. 0:
  // made without a recorder.
  uint32_t owner;
  int64_t weighted_bytes;         // bytes that one sample stands for now
  std::atomic<uint64_t> at_peak;  // peak.h: epoch << 32 | live samples
  // Written by the owner.
  alignas(kCacheLineBytes) std::atomic<uint64_t> owner_allocs;
  std::atomic<uint64_t> owner_frees;
  std::atomic<uint64_t> owner_requested_bytes;        // requested bytes of owner_allocs
  std::atomic<uint64_t> owner_freed_requested_bytes;  // requested bytes of owner_frees
  std::atomic<Lifetimes*> owner_lifetimes;
  // The counts at the baseline (records.h).
  std::atomic<uint64_t> baseline_alloc_samples, baseline_live_samples;
  // Written by all other threads.
  // Samples ever drawn, except those in owner_allocs and those resized into this bucket.
  alignas(kCacheLineBytes) std::atomic<uint64_t> shared_allocs;
  // Samples freed or resized into another bucket, except those in owner_frees and remote_frees;
  // minus those resized into this one.
  std::atomic<uint64_t> shared_frees;
  // Freed by another thread than the one that allocated them.
  std::atomic<uint64_t> remote_frees;
  std::atomic<uint64_t> shared_requested_bytes;  // requested bytes of alloc
  // Requested bytes of left and remote_frees; minus those of samples resized into this bucket.
  std::atomic<uint64_t> shared_freed_requested_bytes;
  std::atomic<Lifetimes*> same_thread_lifetimes, remote_lifetimes;

  // Lifetimes of the samples that were freed this way; null while there are none.
  Lifetimes* lifetimes(FreedBy by) const {
    return (this->*lifetimes_member(by)).load(std::memory_order_acquire);
  }

  // Counts a sample of `thread`, the calling one. `has_recorder`: the thread holds its recorder.
  void count_alloc(uint32_t thread, bool has_recorder, size_t requested_bytes) {
    if (has_recorder && thread == owner) {
      owner_allocs.store(owner_allocs.load(std::memory_order_relaxed) + 1,
                         std::memory_order_relaxed);
      owner_requested_bytes.store(
          owner_requested_bytes.load(std::memory_order_relaxed) + requested_bytes,
          std::memory_order_relaxed);
    } else {
      shared_allocs.fetch_add(1, std::memory_order_relaxed);
      shared_requested_bytes.fetch_add(requested_bytes, std::memory_order_relaxed);
    }
  }
  // Counts the free of a sample by the thread that allocated it, `thread`, the calling one, which
  // holds its recorder. Returns false and does nothing if count_free() has to be called instead.
  // Release: a reader that sees the free also sees the allocation. Pairs with read_bucket().
  SEEMALLOC_ALWAYS_INLINE bool try_count_free_as_owner(uint32_t thread, uint64_t lived_ns,
                                                       size_t requested_bytes) {
    Lifetimes* own = owner_lifetimes.load(std::memory_order_relaxed);
    if (SEEMALLOC_UNLIKELY(thread != owner || own == nullptr)) return false;
    own->add_single_writer(lived_ns);
    owner_freed_requested_bytes.store(
        owner_freed_requested_bytes.load(std::memory_order_relaxed) + requested_bytes,
        std::memory_order_release);
    owner_frees.store(owner_frees.load(std::memory_order_relaxed) + 1, std::memory_order_release);
    return true;
  }
  // The same, for any kind of free. Returns false if memory for the lifetime is refused; the free
  // is counted all the same.
  bool count_free(FreedBy by, uint64_t lived_ns, size_t requested_bytes);
  uint64_t live_samples() const {
    uint64_t gone =
        owner_frees.load(std::memory_order_acquire) + remote_frees.load(std::memory_order_acquire);
    gone += shared_frees.load(std::memory_order_acquire);
    return owner_allocs.load(std::memory_order_relaxed) +
           shared_allocs.load(std::memory_order_relaxed) - gone;
  }

 private:
  static constexpr std::atomic<Lifetimes*> Bucket::*lifetimes_member(FreedBy by) {
    return by == FreedBy::kBucketOwner  ? &Bucket::owner_lifetimes
           : by == FreedBy::kSameThread ? &Bucket::same_thread_lifetimes
                                        : &Bucket::remote_lifetimes;
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

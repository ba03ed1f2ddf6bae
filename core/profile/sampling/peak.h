// Peak: the high-water mark of live bytes, as estimated from samples, and the live samples of each
// bucket at that moment.
//
// Nothing is copied when a new mark is reached. The mark gets a new number (epoch). A bucket saves
// its count when it changes for the first time after the mark; a bucket that has not changed since
// still has the count of that moment. A thread with a recorder accumulates its changes and reports
// them when they exceed 1/1024 of the mark (and 4 KiB). This bounds a thread's error, and avoids a
// shared word in every sample. An operation that is in progress in another thread when a mark is
// reached may be counted on either side.
// Threads: any; no lock. Cost: a load and a compare per sample, plus a compare-exchange when a
// bucket changes for the first time after a mark.
#pragma once

#include <atomic>
#include <cstdint>

#include "core/base/compiler.h"
#include "core/base/units.h"
#include "core/profile/sampling/bucket_table.h"

namespace seemalloc::profile {

class PeakTracker {
 public:
  constexpr PeakTracker() = default;

  // Called before the bucket's count of live samples changes.
  SEEMALLOC_ALWAYS_INLINE void save_count(Bucket& bucket) {
    uint64_t word = bucket.at_peak.load(std::memory_order_relaxed);
    uint32_t now = epoch();
    if (SEEMALLOC_UNLIKELY(static_cast<uint32_t>(word >> 32) != now))
      save_count_slow(bucket, word, now);
  }
  // Called after the change: live bytes grow by `bytes`, which may be negative. `pending`: bytes
  // that this thread has not reported yet; null: the thread has no place to accumulate them.
  SEEMALLOC_ALWAYS_INLINE void add(int64_t bytes, int64_t* pending) {
    if (SEEMALLOC_LIKELY(pending != nullptr)) {
      bytes += *pending;
      int64_t grain = batch_bytes();
      bool small = static_cast<uint64_t>(bytes + grain) <= static_cast<uint64_t>(2 * grain);
      *pending = small ? bytes : 0;
      if (small) return;
    }
    report(bytes);
  }

  // The bucket's live samples when the mark of this epoch was reached.
  uint64_t samples_at(const Bucket& bucket, uint32_t epoch_read) const;
  uint32_t epoch() const { return epoch_.load(std::memory_order_acquire); }
  // Now, as reported by threads.
  int64_t in_use_bytes() const { return in_use_.load(std::memory_order_relaxed); }
  int64_t bytes() const { return bytes_.load(std::memory_order_relaxed); }
  // os::coarse_monotonic_ns.
  uint64_t time_ns() const { return time_ns_.load(std::memory_order_relaxed); }
  // The maximum error of each thread that allocates.
  int64_t batch_bytes() const {
    return kMinBatchBytes + extra_batch_bytes_.load(std::memory_order_relaxed);
  }

 private:
  static constexpr int64_t kMinBatchBytes = 4 * KiB;

  SEEMALLOC_NOINLINE static void save_count_slow(Bucket& bucket, uint64_t word, uint32_t now);
  SEEMALLOC_NOINLINE void report(int64_t bytes);

  // Read with every sample, written at a new mark.
  alignas(kCacheLineBytes) std::atomic<uint32_t> epoch_{0};
  // Relative, because all of Records is zero at first (.bss).
  std::atomic<int64_t> extra_batch_bytes_{0};
  std::atomic<int64_t> bytes_{0};
  std::atomic<uint64_t> time_ns_{0};
  alignas(kCacheLineBytes) std::atomic<int64_t> in_use_{0};
};

}  // namespace seemalloc::profile

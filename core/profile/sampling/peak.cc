#include "core/profile/sampling/peak.h"

#include "core/os/kernel/clock.h"

namespace seemalloc::profile {

namespace {
constexpr uint64_t word_of(uint32_t epoch, uint64_t samples) {
  return uint64_t{epoch} << 32 | (samples & UINT32_MAX);
}
}  // namespace

void PeakTracker::save_count_slow(Bucket& bucket, uint64_t word, uint32_t now) {
  // If the exchange fails, another thread has stored the word, and this thread may have read a
  // count that had changed already.
  bucket.at_peak.compare_exchange_strong(word, word_of(now, bucket.live_samples()),
                                         std::memory_order_relaxed);
}

void PeakTracker::report(int64_t bytes) {
  int64_t now = in_use_.fetch_add(bytes, std::memory_order_relaxed) + bytes;
  int64_t mark = bytes_.load(std::memory_order_relaxed);
  while (now > mark) {
    if (!bytes_.compare_exchange_weak(mark, now, std::memory_order_relaxed)) continue;
    if (now >> 10 > kMinBatchBytes)
      extra_batch_bytes_.store((now >> 10) - kMinBatchBytes, std::memory_order_relaxed);
    time_ns_.store(os::coarse_monotonic_ns(), std::memory_order_relaxed);
    // Release: a thread that sees the epoch also sees its figures, and continues from them.
    epoch_.fetch_add(1, std::memory_order_release);
    return;
  }
}

uint64_t PeakTracker::samples_at(const Bucket& bucket, uint32_t epoch_read) const {
  // Load the count first. If it has changed since the mark, the word was stored before the change,
  // so the load below finds it.
  uint64_t live = bucket.live_samples();
  uint64_t word = bucket.at_peak.load(std::memory_order_relaxed);
  return static_cast<uint32_t>(word >> 32) == epoch_read ? word & UINT32_MAX : live;
}

}  // namespace seemalloc::profile

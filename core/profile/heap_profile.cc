#include "core/profile/heap_profile.h"

#include <bit>

#include "core/base/check.h"
#include "core/os/os.h"
#include "core/profile/records.h"

namespace seemalloc::profile {

constinit Records records;

namespace {

// Newton's method from a guess with half the exponent. libm's sqrt is not ours to call.
double square_root(double x) {
  if (!(x > 0)) return 0;
  double root = std::bit_cast<double>((std::bit_cast<uint64_t>(x) >> 1) + (uint64_t{1023} << 51));
  for (int i = 0; i < 5; i++) root = 0.5 * (root + x / root);
  return root;
}

void count(std::atomic<uint64_t>& counter) { counter.fetch_add(1, std::memory_order_relaxed); }

}  // namespace

SampleId record_alloc(const Allocation& allocation, const Stack& stack) {
  BucketKey key{allocation.allocated_bytes, allocation.allocated_bytes, allocation.interval_bytes};
  Bucket* bucket = records.buckets.intern(stack, key, records.stacks);
  SampleId id = 0;
  if (SEEMALLOC_LIKELY(bucket != nullptr)) {
    id = records.live.add({bucket, allocation.requested_bytes, os::coarse_monotonic_ns(), cached_thread_id()});
  }
  if (SEEMALLOC_UNLIKELY(id == 0)) {
    count(records.dropped);
    return 0;
  }
  count(bucket->alloc_samples);
  count(bucket->live_samples);
  return id;
}

void record_free(SampleId id) {
  Bucket* bucket = records.live.remove(id);
  bucket->live_samples.fetch_sub(1, std::memory_order_relaxed);
}

void record_resize(SampleId id, size_t requested_bytes, size_t allocated_bytes) {
  Bucket* before = records.live.get(id).bucket;
  BucketKey key = before->key;
  key.allocated_bytes = allocated_bytes;
  Bucket* after = before;
  if (key != before->key) {
    after = records.buckets.intern(*before->stack, key);
    if (after == nullptr) {
      count(records.stale_resizes);
      return;
    }
  }
  records.live.set_size(id, after, requested_bytes);
  if (after == before) return;
  count(after->live_samples);
  before->live_samples.fetch_sub(1, std::memory_order_relaxed);
}

BucketRow read_bucket(const Bucket& bucket) {
  return BucketRow{&bucket, bucket.alloc_samples.load(std::memory_order_relaxed),
             bucket.live_samples.load(std::memory_order_relaxed)};
}

void RowSums::add(const BucketRow& row) {
  double weight = row.bucket->weight;
  totals_.samples += row.alloc_samples;
  totals_.live_samples += row.live_samples;
  totals_.alloc_objects += row.alloc_objects();
  totals_.alloc_bytes += row.alloc_objects() * row.bytes();
  totals_.inuse_objects += row.live_objects();
  totals_.inuse_bytes += row.live_objects() * row.bytes();
  variance_ += row.live_objects() * (weight - 1) * row.bytes() * row.bytes();  // (1-p)/p² = w(w-1)
}

SampleTotals RowSums::totals() const {
  SampleTotals totals = totals_;
  totals.inuse_bytes_stderr = square_root(variance_);
  return totals;
}

SampleTotals sample_totals() {
  RowSums sums;
  records.buckets.for_each([&](const Bucket& bucket) { sums.add(read_bucket(bucket)); });
  SampleTotals totals = sums.totals();
  totals.dropped = records.dropped.load(std::memory_order_relaxed);
  totals.stacks = records.stacks.size();
  return totals;
}

void lock_for_fork() {
  records.buckets.lock_all();
  records.stacks.lock_all();
  records.live.lock_all();
}

void unlock_after_fork() {
  forget_thread_id();
  records.live.unlock_all();
  records.stacks.unlock_all();
  records.buckets.unlock_all();
}

}  // namespace seemalloc::profile

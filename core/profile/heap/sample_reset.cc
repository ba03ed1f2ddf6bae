#include "core/profile/heap/sample_reset.h"

#include <algorithm>

#include "core/base/units.h"
#include "core/os/kernel/clock.h"
#include "core/os/kernel/wait.h"
#include "core/os/runtime/lock.h"
#include "core/os/runtime/report_memory.h"
#include "core/profile/sampling/grow_array.h"

namespace seemalloc::profile {

namespace {

// The count of a bucket at the reset.
struct Mark {
  const Bucket* bucket;
  uint64_t alloc_samples;
};
bool before(const Mark& a, const Mark& b) { return a.bucket < b.bucket; }

Lock lock;  // protects the marks
Mark* marks = nullptr;
size_t mark_count = 0, marks_bytes = 0;
std::atomic<uint64_t> reset_ns{0};

uint64_t marked(const Bucket* bucket) {
  const Mark* mark = std::lower_bound(marks, marks + mark_count, Mark{bucket, 0}, before);
  return mark != marks + mark_count && mark->bucket == bucket ? mark->alloc_samples : 0;
}

}  // namespace

uint64_t samples_reset_ns() { return reset_ns.load(std::memory_order_relaxed); }

bool reset_samples() {
  uint64_t now = os::monotonic_ns();
  // If all blocks are recorded, births are measured with the coarse clock. Wait until that has
  // passed `now`, so that later births are later than `now`. Not under the lock: if a thread called
  // this in a loop, fork might not get the lock in the fifth of a second for which it tries.
  while (os::coarse_monotonic_ns() <= now) os::pause(kMillisecondNs / 2);
  LockGuard guard(lock);
  GrowArray<Mark> fresh;
  records.buckets.for_each([&](const Bucket& bucket) {
    fresh.push({&bucket, read_bucket(bucket).alloc_samples});
  });
  if (fresh.failed()) return false;
  if (fresh.size() != 0) std::sort(fresh.data(), fresh.data() + fresh.size(), before);
  if (marks != nullptr) os::unmap_report(marks, marks_bytes);
  marks = fresh.data(), mark_count = fresh.size(), marks_bytes = fresh.mapped_bytes();
  fresh.release();
  // A later `now` may have come first.
  reset_ns.store(std::max(now, samples_reset_ns()), std::memory_order_relaxed);
  return true;
}

void for_each_row_since_reset(void (*f)(void* context, const BucketRow& row), void* context) {
  LockGuard guard(lock);
  uint64_t since = samples_reset_ns();
  GrowArray<const Bucket*> young;  // one entry per live sample born since
  if (since != 0) {
    records.live.for_each_alive([&](const LiveSample& sample) {
      if (sample.birth_ns > since) young.push(sample.bucket);
    });
  }
  if (young.failed()) return;
  const Bucket** end = young.data() + young.size();
  // Not std::sort, which recurses: the dumping thread may have a small stack.
  if (young.size() != 0) {
    std::make_heap(young.data(), end);
    std::sort_heap(young.data(), end);
  }
  records.buckets.for_each([&](const Bucket& bucket) {
    BucketRow row = read_bucket(bucket);
    if (since != 0) {
      auto [first, last] = std::equal_range(young.data(), end, &bucket);
      row.live_samples = static_cast<uint64_t>(last - first);
      row.alloc_samples =
          std::max(saturating_subtract(row.alloc_samples, marked(&bucket)), row.live_samples);
    }
    f(context, row);
  });
}

void lock_sample_reset_for_fork() { lock.lock_for_fork(); }
void unlock_sample_reset_after_fork() { lock.unlock_after_fork(); }

}  // namespace seemalloc::profile

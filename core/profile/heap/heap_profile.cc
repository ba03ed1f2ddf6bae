#include "core/profile/heap/heap_profile.h"

#include <bit>

#include "core/base/check.h"
#include "core/base/units.h"
#include "core/os/kernel/clock.h"
#include "core/os/runtime/arena.h"
#include "core/os/runtime/scratch.h"
#include "core/profile/code/registers.h"
#include "core/profile/code/unloaded_modules.h"
#include "core/profile/heap/recorder.h"
#include "core/profile/heap/records.h"
#include "core/profile/heap/thread_numbers.h"
#include "core/profile/python/python.h"
#include "core/profile/sampling/sampler.h"
#include "core/profile/sampling/square_root.h"
#include "core/profile/unwind/unwind.h"

namespace seemalloc::profile {

constinit Records records;

namespace {

void count(std::atomic<uint64_t>& counter) { counter.fetch_add(1, std::memory_order_relaxed); }

// For a block of which less than half was requested. Rounding up to a size class never wastes that
// much; alignment does.
SEEMALLOC_NOINLINE uint64_t requested_log2(size_t requested_bytes) {
  return 1 + static_cast<uint64_t>(std::bit_width(requested_bytes > 1 ? requested_bytes - 1 : 0));
}

uint64_t key_traits(size_t requested_bytes, size_t allocated_bytes, bool moved) {
  constexpr size_t kMin = 64;
  uint64_t traits = moved ? BucketKey::kByRealloc : 0;
  if (SEEMALLOC_UNLIKELY(requested_bytes < allocated_bytes / 2) && allocated_bytes >= kMin)
    traits |= requested_log2(requested_bytes);
  return traits;
}

BucketKey key_of(const Allocation& allocation) {
  return {
      allocation.allocated_bytes, allocation.allocated_bytes, allocation.interval_bytes,
      key_traits(allocation.requested_bytes, allocation.allocated_bytes, allocation.by_realloc)};
}

// The clock for births and deaths of blocks. With every block recorded a few ns matter, so the
// coarse clock is used.
uint64_t lifetime_clock_ns(uint64_t interval_bytes) {
  return SEEMALLOC_LIKELY(interval_bytes > 1) ? os::monotonic_ns() : os::coarse_monotonic_ns();
}

int64_t* pending_peak_bytes(Recorder* recorder) {
  return recorder != nullptr ? &recorder->pending_bytes : nullptr;
}

// Adds one sample to the bucket, which is null if memory was refused.
SampleId add_sample(const Allocation& allocation, Bucket* bucket, Recorder* recorder) {
  SampleId id = 0;
  if (SEEMALLOC_LIKELY(bucket != nullptr)) {
    uint64_t now = lifetime_clock_ns(allocation.interval_bytes);
    if (SEEMALLOC_UNLIKELY(records.first_sample_ns.load(std::memory_order_relaxed) == 0)) {
      records.first_sample_ns.store(now, std::memory_order_relaxed);
    }
    LiveSample sample{bucket, allocation.requested_bytes, now, current_thread_number()};
    id = recorder != nullptr ? records.live.add(sample, recorder->ids) : records.live.add(sample);
  }
  if (SEEMALLOC_UNLIKELY(id == 0)) {
    count(records.dropped);
    return 0;
  }
  records.peak.save_count(*bucket);
  bucket->count_alloc(thread_number_cache, recorder != nullptr, allocation.requested_bytes);
  records.peak.add(bucket->weighted_bytes, pending_peak_bytes(recorder));
  return id;
}

// Returns the thread that may count a new bucket's samples with plain stores: the calling thread,
// while it holds its recorder. Returns 0 for a thread without a number of its own, because in a
// forked child its kernel id may belong to another thread.
uint32_t owner_for(const Recorder* recorder) {
  return recorder != nullptr && is_thread_number(current_thread_number()) ? current_thread_number()
                                                                          : 0;
}

// Returns `alloc_stacks` if a stack of the calling thread may be recalled from it, otherwise null:
// if there is no cache, or if Python frames are recorded, since the cache knows only the C frames.
StackCache* cache_unless_python(StackCache* cache) {
  return SEEMALLOC_UNLIKELY(runs_python()) ? nullptr : cache;
}

// Returns an entry for a new stack; null without a cache. Enlarges the cache if it is crowded.
StackCache::Entry* begin_entry(StackCache* cache, const Registers& registers, uintptr_t site,
                               size_t max_depth, uint64_t interval_bytes) {
  if (cache == nullptr) return nullptr;
  if (cache->should_enlarge(interval_bytes <= 1)) cache->enlarge();
  return cache->begin_entry(registers, site, max_depth);
}

// Walks the stack above `registers`, and stores it in the cache if there is one.
SEEMALLOC_NOINLINE Bucket* find_bucket_by_walk(const Registers& registers,
                                               const Allocation& allocation, uintptr_t site,
                                               size_t max_depth, Recorder* recorder,
                                               StackCache* cache) {
  StackCache::Entry* entry =
      begin_entry(cache, registers, site, max_depth, allocation.interval_bytes);
  WalkDependencies notes(entry);
  Stack stack;
  walk_stack(registers, max_depth, &stack, &notes);
  Bucket* bucket =
      records.buckets.intern(stack, key_of(allocation), records.stacks, owner_for(recorder));
  if (notes.complete() && bucket != nullptr) {
    entry->bucket_slot(bucket->key.allocated_bytes) = bucket;
    entry->stack = bucket->stack;
  }
  return bucket;
}

SEEMALLOC_NOINLINE Bucket* find_bucket_of_entry(StackCache::Entry& entry, const BucketKey& key,
                                                const Recorder* recorder) {
  Bucket* bucket = records.buckets.intern(*entry.stack, key, owner_for(recorder));
  if (bucket != nullptr) entry.bucket_slot(key.allocated_bytes) = bucket;
  return bucket;
}

}  // namespace

Recorder* make_recorder() {
  return static_cast<Recorder*>(os::arena_allocate(sizeof(Recorder), alignof(Recorder)));
}

void adopt_recorder(Recorder& recorder) {
  // May have been interrupted in mid-update; loses at most two batches.
  if (recorder.busy) recorder.ids = IdCache{};
  recorder.busy = false;
  recorder.rate_limiter.adopt();
  recorder.alloc_stacks.clear();
  recorder.free_stacks.clear();
}

SampleId record_alloc(const Allocation& allocation, const Stack& stack) {
  return add_sample(allocation, records.buckets.intern(stack, key_of(allocation), records.stacks),
                    nullptr);
}

SEEMALLOC_NOINLINE SampleId record_alloc(Recorder* recorder, const Allocation& allocation,
                                         uintptr_t site, size_t max_depth) {
  Registers registers;
  take_registers(&registers);
  RecorderUse use(recorder);
  recorder = use.get();
  StackCache* cache = recorder != nullptr ? cache_unless_python(&recorder->alloc_stacks) : nullptr;
  StackCache::Entry* known = cache != nullptr ? cache->find(registers, site, max_depth) : nullptr;
  Bucket* bucket;
  if (SEEMALLOC_UNLIKELY(known == nullptr)) {
    bucket = find_bucket_by_walk(registers, allocation, site, max_depth, recorder, cache);
  } else {
    bucket = known->bucket_slot(allocation.allocated_bytes);
    BucketKey key = key_of(allocation);
    if (SEEMALLOC_UNLIKELY(bucket == nullptr || bucket->key != key))
      bucket = find_bucket_of_entry(*known, key, recorder);
  }
  return add_sample(allocation, bucket, recorder);
}

namespace {

SEEMALLOC_NOINLINE const InternedStack* find_free_stack_by_walk(const Registers& registers,
                                                                const Lifetimes& lifetimes,
                                                                size_t max_depth, StackCache* cache,
                                                                uint64_t interval_bytes) {
  StackCache::Entry* entry = begin_entry(cache, registers, 0, max_depth, interval_bytes);
  WalkDependencies notes(entry);
  Stack stack;
  walk_stack(registers, max_depth, &stack, &notes);
  const InternedStack* interned = records.free_stacks.intern(lifetimes, stack, records.stacks);
  if (notes.complete()) entry->stack = interned;
  return interned;
}

// Records the stack that frees a block. The bucket has counted the block already.
SEEMALLOC_NOINLINE void record_free_stack(Bucket& bucket, FreedBy by, size_t max_depth,
                                          Recorder* recorder) {
  Registers registers;
  take_registers(&registers);
  Lifetimes* lifetimes = bucket.lifetimes(by);
  if (lifetimes == nullptr) return;
  StackCache* cache = nullptr;
  if (recorder != nullptr) {
    cache = cache_unless_python(&recorder->free_stacks);
  } else if (os::in_nested_call) {
    return;  // counted with an unknown stack
  }
  StackCache::Entry* known = cache != nullptr ? cache->find(registers, 0, max_depth) : nullptr;
  const InternedStack* stack = known != nullptr
                                   ? known->stack
                                   : find_free_stack_by_walk(registers, *lifetimes, max_depth,
                                                             cache, bucket.key.interval_bytes);
  if (stack != nullptr) records.free_stacks.add(*lifetimes, stack, by == FreedBy::kBucketOwner);
}

}  // namespace

void count_dropped_sample() { count(records.dropped); }

namespace {

FreedBy freed_by(const Recorder* recorder, const RemovedSample& left) {
  if (!is_calling_thread(left.thread)) return FreedBy::kOtherThread;
  return recorder != nullptr && left.thread == left.bucket->owner ? FreedBy::kBucketOwner
                                                                  : FreedBy::kSameThread;
}

// Counts for all threads first, then by thread. A reader that loads in the opposite order never
// finds a thread's count above the total.
SEEMALLOC_NOINLINE bool count_free_slow(const Recorder* recorder, const RemovedSample& left,
                                        uint64_t lived_ns, bool by_thread) {
  FreedBy by = freed_by(recorder, left);
  if (!left.bucket->count_free(by, lived_ns, left.requested_bytes)) {
    count(records.lost_lifetimes);
    return false;
  }
  if (by != FreedBy::kBucketOwner && by_thread && is_thread_number(left.thread)) {
    records.thread_lifetimes.add(*left.bucket, by, left.thread, lived_ns, max_thread_lifetimes());
  }
  return true;
}

}  // namespace

FreedSampleInfo record_free(Recorder* recorder, SampleId id, FreeStackOptions wanted) {
  RecorderUse use(recorder);
  recorder = use.get();
  RemovedSample left =
      recorder != nullptr ? records.live.remove(id, recorder->ids) : records.live.remove(id);
  Bucket& bucket = *left.bucket;
  uint64_t lived_ns =
      saturating_subtract(lifetime_clock_ns(bucket.key.interval_bytes), left.birth_ns);
  records.peak.save_count(bucket);
  bool counted = recorder != nullptr && is_calling_thread(left.thread) &&
                 bucket.try_count_free_as_owner(left.thread, lived_ns, left.requested_bytes);
  bool in_detail = wanted.of_all || bucket.key.interval_bytes > 1;
  if (SEEMALLOC_UNLIKELY(!counted)) counted = count_free_slow(recorder, left, lived_ns, in_detail);
  records.peak.add(-bucket.weighted_bytes, pending_peak_bytes(recorder));
  if (SEEMALLOC_UNLIKELY(wanted.max_depth != 0) && counted && in_detail) {
    record_free_stack(bucket, freed_by(recorder, left), wanted.max_depth, recorder);
  }
  return {bucket.key.sampled_bytes, bucket.key.interval_bytes};
}

void record_resize(SampleId id, size_t requested_bytes, size_t allocated_bytes) {
  LiveSample sample = records.live.get(id);
  Bucket* before = sample.bucket;
  BucketKey key = before->key;
  key.allocated_bytes = allocated_bytes;
  key.traits = key_traits(requested_bytes, allocated_bytes, key.by_realloc());
  Bucket* after = before;
  if (key != before->key) {
    after = records.buckets.intern(*before->stack, key);
    if (after == nullptr) {
      count(records.stale_resizes);
      return;
    }
  }
  records.live.set_size(id, after, requested_bytes);
  after->shared_freed_requested_bytes.fetch_sub(records.live.get(id).requested_bytes,
                                                std::memory_order_relaxed);
  before->shared_freed_requested_bytes.fetch_add(sample.requested_bytes, std::memory_order_release);
  if (after == before) return;
  records.peak.save_count(*after);
  records.peak.save_count(*before);
  after->shared_frees.fetch_sub(1, std::memory_order_relaxed);
  before->shared_frees.fetch_add(1, std::memory_order_release);
  records.peak.add(after->weighted_bytes - before->weighted_bytes, nullptr);
}

BucketRow read_bucket(const Bucket& bucket) {
  uint64_t shared_freed_requested_bytes =
      bucket.owner_freed_requested_bytes.load(std::memory_order_acquire) +
      bucket.shared_freed_requested_bytes.load(std::memory_order_acquire);
  uint64_t left = bucket.owner_frees.load(std::memory_order_acquire);
  uint64_t elsewhere = bucket.remote_frees.load(std::memory_order_acquire);
  left += bucket.shared_frees.load(std::memory_order_acquire) + elsewhere;
  uint64_t samples = bucket.owner_allocs.load(std::memory_order_relaxed) +
                     bucket.shared_allocs.load(std::memory_order_relaxed);
  uint64_t asked = bucket.owner_requested_bytes.load(std::memory_order_relaxed) +
                   bucket.shared_requested_bytes.load(std::memory_order_relaxed);
  return BucketRow{
      .bucket = &bucket,
      .alloc_samples = samples,
      .live_samples = samples - left,
      .remote_freed_samples = elsewhere,
      .requested_bytes = asked,
      .live_requested_bytes = asked - shared_freed_requested_bytes,
      .baseline_alloc_samples = bucket.baseline_alloc_samples.load(std::memory_order_acquire),
      .baseline_live_samples = bucket.baseline_live_samples.load(std::memory_order_acquire),
      .peak_samples = 0,
      .weight = sample_weight(bucket.key.sampled_bytes, bucket.key.interval_bytes)};
}

void set_baseline(ExactBytes exact) {
  Baseline& baseline = records.baseline;
  LockGuard guard(baseline.lock);
  uint32_t version = baseline.version.load(std::memory_order_relaxed);
  baseline.version.store(version + 1, std::memory_order_relaxed);
  records.buckets.for_each([](Bucket& bucket) {
    BucketRow row = read_bucket(bucket);
    bucket.baseline_alloc_samples.store(row.alloc_samples, std::memory_order_release);
    bucket.baseline_live_samples.store(row.live_samples, std::memory_order_release);
  });
  baseline.allocated_bytes.store(exact.allocated, std::memory_order_relaxed);
  baseline.live_bytes.store(exact.live, std::memory_order_relaxed);
  baseline.time_ns.store(os::monotonic_ns(), std::memory_order_release);
  baseline.version.store(version + 2, std::memory_order_release);
}

void RowSums::add_new(const BucketRow& row) {
  double objects = row.alloc_objects_since_baseline();
  totals_.alloc_objects += objects;
  totals_.alloc_bytes += objects * row.bytes();
  allocated_.add(objects, row.weight, row.bytes());
}

void RowSums::add(const BucketRow& row) {
  totals_.samples += row.alloc_samples;
  if (row.bucket->stack->truncated) totals_.truncated_samples += row.alloc_samples;
  if (row.bucket->stack->broken) totals_.broken_samples += row.alloc_samples;
  totals_.live_samples += row.live_samples;
  totals_.alloc_objects += row.alloc_objects();
  totals_.alloc_bytes += row.alloc_objects() * row.bytes();
  totals_.inuse_objects += row.live_objects();
  totals_.inuse_bytes += row.live_objects() * row.bytes();
  allocated_.add(row.alloc_objects(), row.weight, row.bytes());
  in_use_.add(row.live_objects(), row.weight, row.bytes());
  if (row.live_samples == 0) return;
  // May be negative if blocks with more than 4 GiB of slack were freed: the recorded slack
  // saturates there.
  int64_t counted = static_cast<int64_t>(row.live_requested_bytes);
  double asked = counted > 0 ? static_cast<double>(counted) : 0;
  totals_.inuse_requested_bytes += row.weight * asked;
  // Blocks of a row have one size class, so their requested sizes are nearly equal.
  requested_.add(row.live_objects(), row.weight, asked / static_cast<double>(row.live_samples));
}

SampleTotals RowSums::totals() const {
  SampleTotals totals = totals_;
  totals.alloc_bytes_stderr = square_root(allocated_.variance());
  totals.inuse_bytes_stderr = square_root(in_use_.variance());
  totals.inuse_requested_bytes_stderr = square_root(requested_.variance());
  return totals;
}

SampleTotals sample_totals() {
  RowSums sums;
  records.buckets.for_each([&](const Bucket& bucket) { sums.add(read_bucket(bucket)); });
  SampleTotals totals = sums.totals();
  totals.dropped = records.dropped.load(std::memory_order_relaxed);
  totals.stacks = records.buckets.stacks();
  return totals;
}

void lock_for_fork() {
  lock_unloaded_for_fork();
  records.baseline.lock.lock_for_fork();
  records.buckets.lock_all();
  records.stacks.lock_all();
  records.thread_lifetimes.lock_all();
  records.live.lock_all();
  records.threads.lock_for_fork();
}

void unlock_after_fork() {
  records.threads.unlock_after_fork();
  records.live.unlock_all();
  records.thread_lifetimes.unlock_all();
  records.stacks.unlock_all();
  records.buckets.unlock_all();
  records.baseline.lock.unlock_after_fork();
  unlock_unloaded_after_fork();
}

}  // namespace seemalloc::profile

#include "core/profile/heap/heap_profile.h"

#include <bit>

#include "core/base/check.h"
#include "core/base/units.h"
#include "core/os/kernel/clock.h"
#include "core/os/runtime/arena.h"
#include "core/os/runtime/scratch.h"
#include "core/profile/code/registers.h"
#include "core/profile/code/unloaded.h"
#include "core/profile/heap/recorder.h"
#include "core/profile/heap/records.h"
#include "core/profile/heap/sampled_threads.h"
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
SEEMALLOC_NOINLINE uint64_t asked_log2(size_t requested_bytes) {
  return 1 + static_cast<uint64_t>(std::bit_width(requested_bytes > 1 ? requested_bytes - 1 : 0));
}

uint64_t traits_of(size_t requested_bytes, size_t allocated_bytes, bool moved) {
  constexpr size_t kLeast = 64;
  uint64_t traits = moved ? BucketKey::kMoved : 0;
  if (SEEMALLOC_UNLIKELY(requested_bytes < allocated_bytes / 2) && allocated_bytes >= kLeast)
    traits |= asked_log2(requested_bytes);
  return traits;
}

BucketKey key_of(const Allocation& allocation) {
  return {allocation.allocated_bytes, allocation.allocated_bytes, allocation.interval_bytes,
          traits_of(allocation.requested_bytes, allocation.allocated_bytes, allocation.moved)};
}

// The clock for births and deaths of blocks. With every block recorded a few ns matter, so the
// coarse clock is used.
uint64_t life_clock_ns(uint64_t interval_bytes) {
  return SEEMALLOC_LIKELY(interval_bytes > 1) ? os::monotonic_ns() : os::coarse_monotonic_ns();
}

int64_t* pending_of(Recorder* recorder) {
  return recorder != nullptr ? &recorder->pending_bytes : nullptr;
}

// Adds one sample to the bucket, which is null if memory was refused.
SampleId add_sample(const Allocation& allocation, Bucket* bucket, Recorder* recorder) {
  SampleId id = 0;
  if (SEEMALLOC_LIKELY(bucket != nullptr)) {
    uint64_t now = life_clock_ns(allocation.interval_bytes);
    if (SEEMALLOC_UNLIKELY(records.first_sample_ns.load(std::memory_order_relaxed) == 0)) {
      records.first_sample_ns.store(now, std::memory_order_relaxed);
    }
    LiveSample sample{bucket, allocation.requested_bytes, now, sampled_thread()};
    id = recorder != nullptr ? records.live.add(sample, recorder->ids) : records.live.add(sample);
  }
  if (SEEMALLOC_UNLIKELY(id == 0)) {
    count(records.dropped);
    return 0;
  }
  records.peak.keep(*bucket);
  bucket->count_alloc(sampled_thread_cache, recorder != nullptr, allocation.requested_bytes);
  records.peak.add(bucket->weighted_bytes, pending_of(recorder));
  return id;
}

// Returns the thread that may count a new bucket's samples with plain stores: the calling thread,
// while it holds its recorder. Returns 0 for a thread without a number of its own, because in a
// forked child its kernel id may belong to another thread.
uint32_t owner_by(const Recorder* recorder) {
  return recorder != nullptr && has_number(sampled_thread()) ? sampled_thread() : 0;
}

// Returns `memo` if a stack of the calling thread may be recalled from it, otherwise null: if there
// is no memo, or if Python frames are recorded, since the memo knows only the C frames.
StackMemo* usable(StackMemo* memo) { return SEEMALLOC_UNLIKELY(runs_python()) ? nullptr : memo; }

// Returns an entry for a new stack; null without a memo. Enlarges the memo if it is crowded.
StackMemo::Entry* begin_entry(StackMemo* memo, const Registers& registers, uintptr_t site,
                              size_t max_depth, uint64_t interval_bytes) {
  if (memo == nullptr) return nullptr;
  if (memo->is_crowded(interval_bytes <= 1)) memo->enlarge();
  return memo->begin(registers, site, max_depth);
}

// Walks the stack above `registers`, and stores it in the memo if there is one.
SEEMALLOC_NOINLINE Bucket* find_bucket_by_walk(const Registers& registers,
                                               const Allocation& allocation, uintptr_t site,
                                               size_t max_depth, Recorder* recorder,
                                               StackMemo* memo) {
  StackMemo::Entry* entry =
      begin_entry(memo, registers, site, max_depth, allocation.interval_bytes);
  WalkNotes notes(entry);
  Stack stack;
  walk_stack(registers, max_depth, &stack, &notes);
  Bucket* bucket =
      records.buckets.intern(stack, key_of(allocation), records.stacks, owner_by(recorder));
  if (notes.complete() && bucket != nullptr) {
    entry->bucket_of(bucket->key.allocated_bytes) = bucket;
    entry->stack = bucket->stack;
  }
  return bucket;
}

SEEMALLOC_NOINLINE Bucket* find_other_bucket(StackMemo::Entry& entry, const BucketKey& key,
                                             const Recorder* recorder) {
  Bucket* bucket = records.buckets.intern(*entry.stack, key, owner_by(recorder));
  if (bucket != nullptr) entry.bucket_of(key.allocated_bytes) = bucket;
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
  recorder.pace.restart();
  recorder.memo.clear();
  recorder.deaths.clear();
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
  StackMemo* memo = recorder != nullptr ? usable(&recorder->memo) : nullptr;
  StackMemo::Entry* known = memo != nullptr ? memo->find(registers, site, max_depth) : nullptr;
  Bucket* bucket;
  if (SEEMALLOC_UNLIKELY(known == nullptr)) {
    bucket = find_bucket_by_walk(registers, allocation, site, max_depth, recorder, memo);
  } else {
    bucket = known->bucket_of(allocation.allocated_bytes);
    BucketKey key = key_of(allocation);
    if (SEEMALLOC_UNLIKELY(bucket == nullptr || bucket->key != key))
      bucket = find_other_bucket(*known, key, recorder);
  }
  return add_sample(allocation, bucket, recorder);
}

namespace {

SEEMALLOC_NOINLINE const InternedStack* find_death_by_walk(const Registers& registers,
                                                           const Lifetimes& lifetimes,
                                                           size_t max_depth, StackMemo* memo,
                                                           uint64_t interval_bytes) {
  StackMemo::Entry* entry = begin_entry(memo, registers, 0, max_depth, interval_bytes);
  WalkNotes notes(entry);
  Stack stack;
  walk_stack(registers, max_depth, &stack, &notes);
  const InternedStack* interned = records.deaths.intern(lifetimes, stack, records.stacks);
  if (notes.complete()) entry->stack = interned;
  return interned;
}

// Records the stack that frees a block. The bucket has counted the block already.
SEEMALLOC_NOINLINE void note_death(Bucket& bucket, FreedBy by, size_t max_depth,
                                   Recorder* recorder) {
  Registers registers;
  take_registers(&registers);
  Lifetimes* lifetimes = bucket.lifetimes(by);
  if (lifetimes == nullptr) return;
  StackMemo* memo = nullptr;
  if (recorder != nullptr) {
    memo = usable(&recorder->deaths);
  } else if (os::inner_calls) {
    return;  // counted with an unknown stack
  }
  StackMemo::Entry* known = memo != nullptr ? memo->find(registers, 0, max_depth) : nullptr;
  const InternedStack* stack =
      known != nullptr
          ? known->stack
          : find_death_by_walk(registers, *lifetimes, max_depth, memo, bucket.key.interval_bytes);
  if (stack != nullptr) records.deaths.add(*lifetimes, stack, by == FreedBy::kOwner);
}

}  // namespace

void drop_sample() { count(records.dropped); }

namespace {

FreedBy freed_by(const Recorder* recorder, const LeftSample& left) {
  if (!is_own_sample(left.thread)) return FreedBy::kAnother;
  return recorder != nullptr && left.thread == left.bucket->owner ? FreedBy::kOwner
                                                                  : FreedBy::kSame;
}

// Counts for all threads first, then by thread. A reader that loads in the opposite order never
// finds a thread's count above the total.
SEEMALLOC_NOINLINE bool count_left_slow(const Recorder* recorder, const LeftSample& left,
                                        uint64_t lived_ns, bool by_thread) {
  FreedBy by = freed_by(recorder, left);
  if (!left.bucket->count_left(by, lived_ns, left.requested_bytes)) {
    count(records.lost_lifetimes);
    return false;
  }
  if (by != FreedBy::kOwner && by_thread && has_number(left.thread)) {
    records.thread_lives.add(*left.bucket, by, left.thread, lived_ns, most_thread_lives());
  }
  return true;
}

}  // namespace

FreedSample record_free(Recorder* recorder, SampleId id, DeathStacks wanted) {
  RecorderUse use(recorder);
  recorder = use.get();
  LeftSample left =
      recorder != nullptr ? records.live.remove(id, recorder->ids) : records.live.remove(id);
  Bucket& bucket = *left.bucket;
  uint64_t lived_ns = minus(life_clock_ns(bucket.key.interval_bytes), left.birth_ns);
  records.peak.keep(bucket);
  bool counted = recorder != nullptr && is_own_sample(left.thread) &&
                 bucket.count_left_alone(left.thread, lived_ns, left.requested_bytes);
  bool in_detail = wanted.of_all || bucket.key.interval_bytes > 1;
  if (SEEMALLOC_UNLIKELY(!counted)) counted = count_left_slow(recorder, left, lived_ns, in_detail);
  records.peak.add(-bucket.weighted_bytes, pending_of(recorder));
  if (SEEMALLOC_UNLIKELY(wanted.max_depth != 0) && counted && in_detail) {
    note_death(bucket, freed_by(recorder, left), wanted.max_depth, recorder);
  }
  return {bucket.key.drawn_bytes, bucket.key.interval_bytes};
}

void record_resize(SampleId id, size_t requested_bytes, size_t allocated_bytes) {
  LiveSample sample = records.live.get(id);
  Bucket* before = sample.bucket;
  BucketKey key = before->key;
  key.allocated_bytes = allocated_bytes;
  key.traits = traits_of(requested_bytes, allocated_bytes, key.moved());
  Bucket* after = before;
  if (key != before->key) {
    after = records.buckets.intern(*before->stack, key);
    if (after == nullptr) {
      count(records.stale_resizes);
      return;
    }
  }
  records.live.set_size(id, after, requested_bytes);
  after->asked_left.fetch_sub(records.live.get(id).requested_bytes, std::memory_order_relaxed);
  before->asked_left.fetch_add(sample.requested_bytes, std::memory_order_release);
  if (after == before) return;
  records.peak.keep(*after);
  records.peak.keep(*before);
  after->left.fetch_sub(1, std::memory_order_relaxed);
  before->left.fetch_add(1, std::memory_order_release);
  records.peak.add(after->weighted_bytes - before->weighted_bytes, nullptr);
}

BucketRow read_bucket(const Bucket& bucket) {
  uint64_t asked_left = bucket.own_asked_left.load(std::memory_order_acquire) +
                        bucket.asked_left.load(std::memory_order_acquire);
  uint64_t left = bucket.own_left.load(std::memory_order_acquire);
  uint64_t elsewhere = bucket.left_elsewhere.load(std::memory_order_acquire);
  left += bucket.left.load(std::memory_order_acquire) + elsewhere;
  uint64_t samples = bucket.own_alloc.load(std::memory_order_relaxed) +
                     bucket.alloc.load(std::memory_order_relaxed);
  uint64_t asked = bucket.own_asked.load(std::memory_order_relaxed) +
                   bucket.asked.load(std::memory_order_relaxed);
  return BucketRow{.bucket = &bucket,
                   .alloc_samples = samples,
                   .live_samples = samples - left,
                   .elsewhere_samples = elsewhere,
                   .asked_bytes = asked,
                   .live_asked_bytes = asked - asked_left,
                   .mark_alloc = bucket.mark_alloc.load(std::memory_order_acquire),
                   .mark_live = bucket.mark_live.load(std::memory_order_acquire),
                   .peak_samples = 0,
                   .weight = sample_weight(bucket.key.drawn_bytes, bucket.key.interval_bytes)};
}

void set_baseline(ExactBytes exact) {
  Baseline& baseline = records.baseline;
  LockGuard guard(baseline.lock);
  uint32_t version = baseline.version.load(std::memory_order_relaxed);
  baseline.version.store(version + 1, std::memory_order_relaxed);
  records.buckets.for_each([](Bucket& bucket) {
    BucketRow row = read_bucket(bucket);
    bucket.mark_alloc.store(row.alloc_samples, std::memory_order_release);
    bucket.mark_live.store(row.live_samples, std::memory_order_release);
  });
  baseline.allocated_bytes.store(exact.allocated, std::memory_order_relaxed);
  baseline.live_bytes.store(exact.live, std::memory_order_relaxed);
  baseline.time_ns.store(os::monotonic_ns(), std::memory_order_release);
  baseline.version.store(version + 2, std::memory_order_release);
}

void RowSums::add_new(const BucketRow& row) {
  double objects = row.new_objects();
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
  int64_t counted = static_cast<int64_t>(row.live_asked_bytes);
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
  records.thread_lives.lock_all();
  records.live.lock_all();
  records.threads.lock_for_fork();
}

void unlock_after_fork() {
  records.threads.unlock_after_fork();
  records.live.unlock_all();
  records.thread_lives.unlock_all();
  records.stacks.unlock_all();
  records.buckets.unlock_all();
  records.baseline.lock.unlock_after_fork();
  unlock_unloaded_after_fork();
}

}  // namespace seemalloc::profile

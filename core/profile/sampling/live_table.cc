#include "core/profile/sampling/live_table.h"

#include "core/base/check.h"
#include "core/os/runtime/arena.h"

namespace seemalloc::profile {

namespace {
uint32_t slack(size_t allocated_bytes, size_t requested_bytes) {
  size_t bytes = saturating_subtract(allocated_bytes, requested_bytes);
  return bytes > UINT32_MAX ? UINT32_MAX : static_cast<uint32_t>(bytes);
}
}  // namespace

LiveTable::Record* LiveTable::record(SampleId id) const {
  // Both pair with the release stores in make_chunk_locked().
  Leaf* leaf = root_[id >> (kLeafBits + kChunkBits)].load(std::memory_order_acquire);
  DCHECK(leaf != nullptr);
  Record* chunk =
      leaf->chunks[(id >> kChunkBits) & ((1u << kLeafBits) - 1)].load(std::memory_order_acquire);
  DCHECK(chunk != nullptr);
  return chunk + (id & ((1u << kChunkBits) - 1));
}

SampleId LiveTable::add(const LiveSample& sample, IdCache& cache) {
  if (cache.head == 0 && !refill(cache)) return 0;
  SampleId id = cache.head;
  Record* fresh = record(id);
  cache.head = fresh->slack_bytes;
  cache.count--;
  fresh->birth_ns = sample.birth_ns;
  fresh->thread = sample.thread;
  set_size(fresh, sample.bucket, sample.requested_bytes);
  return id;
}

SampleId LiveTable::add(const LiveSample& sample) {
  LockGuard guard(shared_lock_);
  return add(sample, shared_);
}

RemovedSample LiveTable::remove(SampleId id, IdCache& cache) {
  Record* gone = record(id);
  Bucket* bucket = gone->bucket.load(std::memory_order_relaxed);
  // Double free: an id in two places would corrupt the lists (invariant 1).
  CHECK(bucket != nullptr);
  RemovedSample left{bucket, bucket->key.allocated_bytes - gone->slack_bytes, gone->birth_ns,
                     gone->thread};
  gone->bucket.store(nullptr, std::memory_order_relaxed);
  gone->slack_bytes = cache.head;
  cache.head = id;
  if (++cache.count == kBatch) put_full_batch(cache);
  return left;
}

RemovedSample LiveTable::remove(SampleId id) {
  LockGuard guard(shared_lock_);
  return remove(id, shared_);
}

LiveSample LiveTable::get(SampleId id) const {
  Record* alive = record(id);
  Bucket* bucket = alive->bucket.load(std::memory_order_relaxed);
  CHECK(bucket != nullptr);
  return LiveSample{bucket, bucket->key.allocated_bytes - alive->slack_bytes, alive->birth_ns,
                    alive->thread};
}

SEEMALLOC_NO_TSAN LiveSample LiveTable::get_if_alive(SampleId id) const {
  const Record* alive = record(id);
  Bucket* bucket = alive->bucket.load(std::memory_order_acquire);
  if (bucket == nullptr) return LiveSample{};
  return LiveSample{bucket, bucket->key.allocated_bytes - alive->slack_bytes, alive->birth_ns,
                    alive->thread};
}

void LiveTable::set_size(Record* alive, Bucket* bucket, size_t requested_bytes) {
  alive->slack_bytes = slack(bucket->key.allocated_bytes, requested_bytes);
  alive->bucket.store(bucket, std::memory_order_release);  // pairs with get_if_alive()
}

void LiveTable::set_size(SampleId id, Bucket* bucket, size_t requested_bytes) {
  set_size(record(id), bucket, requested_bytes);
}

void LiveTable::put_full_batch(IdCache& cache) {
  if (cache.full_batch != 0) {
    LockGuard global(global_lock_);
    record(cache.full_batch)->thread = batches_;
    batches_ = cache.full_batch;
  }
  cache.full_batch = cache.head;
  cache.head = 0;
  cache.count = 0;
}

bool LiveTable::refill(IdCache& cache) {
  if (cache.full_batch == 0) {
    LockGuard global(global_lock_);
    if (batches_ == 0) return carve_batch_locked(cache);
    cache.full_batch = batches_;
    batches_ = record(batches_)->thread;
  }
  cache.head = cache.full_batch;
  cache.full_batch = 0;
  cache.count = kBatch;
  return true;
}

// Requires: the global lock is held.
bool LiveTable::carve_batch_locked(IdCache& cache) {
  uint64_t first = fresh_.load(std::memory_order_relaxed);
  if (first == kMaxIds) return false;
  if (first % (size_t{1} << kChunkBits) == 0 && !make_chunk_locked(first)) return false;
  for (uint64_t id = first + kBatch; id-- > first;) {
    if (id == 0) break;  // invariant 3: the first batch has one id fewer
    record(static_cast<SampleId>(id))->slack_bytes = cache.head;
    cache.head = static_cast<SampleId>(id);
    cache.count++;
  }
  fresh_.store(first + kBatch, std::memory_order_release);
  return true;
}

bool LiveTable::make_chunk_locked(uint64_t first_id) {
  std::atomic<Leaf*>& entry = root_[first_id >> (kLeafBits + kChunkBits)];
  Leaf* leaf = entry.load(std::memory_order_relaxed);
  if (leaf == nullptr) {
    leaf = static_cast<Leaf*>(os::arena_allocate(sizeof(Leaf), kCacheLineBytes));
    if (leaf == nullptr) return false;
    entry.store(leaf, std::memory_order_release);
  }
  auto* chunk =
      static_cast<Record*>(os::arena_allocate(sizeof(Record) << kChunkBits, kCacheLineBytes));
  if (chunk == nullptr) return false;
  leaf->chunks[(first_id >> kChunkBits) & ((1u << kLeafBits) - 1)].store(chunk,
                                                                         std::memory_order_release);
  return true;
}

void LiveTable::lock_all() {
  shared_lock_.lock_for_fork();
  global_lock_.lock_for_fork();
}

void LiveTable::unlock_all() {
  global_lock_.unlock_after_fork();
  shared_lock_.unlock_after_fork();
}

}  // namespace seemalloc::profile

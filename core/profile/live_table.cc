#include "core/profile/live_table.h"

#include "core/base/check.h"
#include "core/os/arena.h"
#include "core/os/os.h"

namespace seemalloc::profile {

namespace {
constinit thread_local uint32_t thread_id_cache = 0;

uint32_t slack(size_t allocated_bytes, size_t requested_bytes) {
  size_t bytes = allocated_bytes > requested_bytes ? allocated_bytes - requested_bytes : 0;
  return bytes > UINT32_MAX ? UINT32_MAX : static_cast<uint32_t>(bytes);
}
}  // namespace

uint32_t cached_thread_id() {
  if (thread_id_cache == 0) thread_id_cache = static_cast<uint32_t>(os::thread_id());
  return thread_id_cache;
}

void forget_thread_id() { thread_id_cache = 0; }

LiveTable::Record* LiveTable::record(SampleId id) const {
  // Both pair with the release stores in make_chunk_locked().
  Leaf* leaf = root_[id >> (kLeafBits + kChunkBits)].load(std::memory_order_acquire);
  DCHECK(leaf != nullptr);
  Record* chunk = leaf->chunks[(id >> kChunkBits) & ((1u << kLeafBits) - 1)].load(std::memory_order_acquire);
  DCHECK(chunk != nullptr);
  return chunk + (id & ((1u << kChunkBits) - 1));
}

SampleId LiveTable::add(const LiveSample& sample) {
  SampleId id = take_id(shard_of_thread(cached_thread_id()));
  if (id == 0) return 0;
  Record* fresh = record(id);
  fresh->birth_ns = sample.birth_ns;
  fresh->thread_id = sample.thread_id;
  set_size(id, sample.bucket, sample.requested_bytes);
  return id;
}

Bucket* LiveTable::remove(SampleId id) {
  Record* gone = record(id);
  Bucket* bucket = gone->bucket.load(std::memory_order_relaxed);
  CHECK(bucket != nullptr);  // freed twice: an id in two places would corrupt the lists (invariant 1)
  gone->bucket.store(nullptr, std::memory_order_relaxed);
  give_id(shard_of_thread(cached_thread_id()), id);
  return bucket;
}

LiveSample LiveTable::get(SampleId id) const {
  Record* alive = record(id);
  Bucket* bucket = alive->bucket.load(std::memory_order_relaxed);
  CHECK(bucket != nullptr);
  return LiveSample{bucket, bucket->key.allocated_bytes - alive->slack_bytes, alive->birth_ns, alive->thread_id};
}

void LiveTable::set_size(SampleId id, Bucket* bucket, size_t requested_bytes) {
  Record* alive = record(id);
  alive->slack_bytes = slack(bucket->key.allocated_bytes, requested_bytes);
  alive->bucket.store(bucket, std::memory_order_relaxed);
}

SampleId LiveTable::take_id(Shard& shard) {
  LockGuard guard(shard.lock);
  if (shard.head == 0 && !refill_locked(shard)) return 0;
  SampleId id = shard.head;
  shard.head = record(id)->slack_bytes;
  shard.count--;
  return id;
}

void LiveTable::give_id(Shard& shard, SampleId id) {
  LockGuard guard(shard.lock);
  record(id)->slack_bytes = shard.head;
  shard.head = id;
  if (++shard.count < kBatch) return;
  if (shard.full != 0) {
    LockGuard global(global_lock_);
    record(shard.full)->thread_id = batches_;
    batches_ = shard.full;
  }
  shard.full = shard.head;
  shard.head = 0;
  shard.count = 0;
}

bool LiveTable::refill_locked(Shard& shard) {
  if (shard.full == 0) {
    LockGuard global(global_lock_);
    if (batches_ == 0) return carve_batch_locked(shard);
    shard.full = batches_;
    batches_ = record(batches_)->thread_id;
  }
  shard.head = shard.full;
  shard.full = 0;
  shard.count = kBatch;
  return true;
}

// Requires: the shard's and the global lock.
bool LiveTable::carve_batch_locked(Shard& shard) {
  uint64_t first = fresh_.load(std::memory_order_relaxed);
  if (first == kMaxIds) return false;
  if (first % (size_t{1} << kChunkBits) == 0 && !make_chunk_locked(first)) return false;
  for (uint64_t id = first + kBatch; id-- > first;) {
    if (id == 0) break;  // invariant 3: the first batch is one short
    record(static_cast<SampleId>(id))->slack_bytes = shard.head;
    shard.head = static_cast<SampleId>(id);
    shard.count++;
  }
  fresh_.store(first + kBatch, std::memory_order_relaxed);
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
  auto* chunk = static_cast<Record*>(os::arena_allocate(sizeof(Record) << kChunkBits, kCacheLineBytes));
  if (chunk == nullptr) return false;
  leaf->chunks[(first_id >> kChunkBits) & ((1u << kLeafBits) - 1)].store(chunk, std::memory_order_release);
  return true;
}

void LiveTable::lock_all() {
  for (Shard& each : shards_) each.lock.lock_for_fork();
  global_lock_.lock_for_fork();
}

void LiveTable::unlock_all() {
  global_lock_.unlock_after_fork();
  for (Shard& each : shards_) each.lock.unlock_after_fork();
}

}  // namespace seemalloc::profile

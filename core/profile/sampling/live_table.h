// LiveTable: the sampled blocks that are still alive, indexed by SampleId.
//
// Records are in chunks that never move, found through a two-level directory; ids are recycled. A
// thread takes ids from its own cache (IdCache) or, without one, from the shared cache. Full
// batches go through one global list. So a thread that only frees supplies a thread that only
// allocates, and the table is never larger than its peak (plus 2 batches per cache).
// Threads: any; a cache belongs to one thread. Lock order: the shared cache's lock, the global
// lock, the arena's lock. Invariants: 1. an id is in exactly one place: alive, in a cache's list,
// or in a global batch; 2. a batch on the global list or in `full_batch` has exactly kBatch ids; 3.
// id 0 is never allocated.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "core/base/compiler.h"
#include "core/base/units.h"
#include "core/os/runtime/lock.h"
#include "core/profile/sampling/bucket_table.h"
#include "core/profile/sampling/sample_id.h"

namespace seemalloc::profile {

// The record of one live sample.
struct LiveSample {
  Bucket* bucket;  // has the stack, the allocated bytes and the interval
  size_t requested_bytes;
  uint64_t birth_ns;  // CLOCK_MONOTONIC, see lifetime_clock_ns()
  uint32_t thread;    // the thread that allocated it (thread_numbers.h)
};

// The record of a sample that was removed.
struct RemovedSample {
  Bucket* bucket;
  size_t requested_bytes;
  uint64_t birth_ns;
  uint32_t thread;
};

// A cache of free ids.
struct IdCache {
  uint32_t count = 0;  // ids in `head`
  SampleId head = 0;
  SampleId full_batch = 0;  // a full batch in reserve, or 0
};

class LiveTable {
 public:
  constexpr LiveTable() = default;

  // Records a live sample. Returns 0 if memory or ids are exhausted.
  SampleId add(const LiveSample& sample, IdCache& cache);
  SampleId add(const LiveSample& sample);
  // Removes a sample. Returns its record. Requires: id is alive.
  RemovedSample remove(SampleId id, IdCache& cache);
  RemovedSample remove(SampleId id);
  LiveSample get(SampleId id) const;
  // Like get(), for an id that may be freed concurrently. In that case the returned bucket is null,
  // or the record is that of another sample.
  LiveSample get_if_alive(SampleId id) const;
  // Calls visit(sample) for each live sample. Samples added or removed during the call may be
  // visited or not.
  template <typename Visit>
  void for_each_alive(Visit visit) const {
    uint64_t end = capacity();
    for (uint64_t id = 1; id < end; id++) {
      LiveSample sample = get_if_alive(static_cast<SampleId>(id));
      if (sample.bucket != nullptr) visit(sample);
    }
  }
  // Requires: id is alive, and no other thread changes or removes it meanwhile.
  void set_size(SampleId id, Bucket* bucket, size_t requested_bytes);
  // The number of records ever made. All ids are below it.
  // Pairs with carve_batch_locked().
  size_t capacity() const { return fresh_.load(std::memory_order_acquire); }

  void lock_all();
  void unlock_all();

 private:
  static constexpr size_t kBatch = 64;
  static constexpr size_t kChunkBits = 11;
  static constexpr size_t kLeafBits = 10;
  static constexpr size_t kRootBits = 32 - kLeafBits - kChunkBits;
  static constexpr uint64_t kMaxIds = uint64_t{1} << 32;

  struct Record {
    std::atomic<Bucket*> bucket;  // null when free
    uint64_t birth_ns;
    uint32_t slack_bytes;  // allocated - requested; in a free record: the next id of its list
    uint32_t thread;       // in a free record that heads a global batch: the next batch
  };
  struct Leaf {
    std::atomic<Record*> chunks[size_t{1} << kLeafBits];
  };
  Record* record(SampleId id) const;
  bool refill(IdCache& cache);
  bool carve_batch_locked(IdCache& cache);
  bool make_chunk_locked(uint64_t first_id);
  void put_full_batch(IdCache& cache);
  static void set_size(Record* alive, Bucket* bucket, size_t requested_bytes);

  Lock shared_lock_;
  IdCache shared_;
  alignas(kCacheLineBytes) Lock global_lock_;
  SampleId batches_ = 0;
  // Ids below this have been carved; written under global_lock_.
  std::atomic<uint64_t> fresh_{0};
  std::atomic<Leaf*> root_[size_t{1} << kRootBits] = {};
};

}  // namespace seemalloc::profile

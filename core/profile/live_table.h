// The live table: one record per sampled block that is alive, found by its SampleId.
//
// Records stand in chunks that never move, found through a two-level directory; ids are recycled. A thread takes ids
// from a cache of its own (IdCache) or, without one, from the shared one; full batches go through one global list, so a
// thread that only frees feeds one that only allocates and the table stays as large as its peak (plus 2 batches each).
// Threads: any; a cache is one thread's. Locks: the shared cache's, then the global one, then the arena's.
// Invariants: 1. an id is in exactly one place: alive, a cache's list, or a global batch; 2. a batch on the global list
// and `full` hold exactly kBatch ids; 3. id 0 is never handed out.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "core/base/compiler.h"
#include "core/base/units.h"
#include "core/os/lock.h"
#include "core/profile/bucket_table.h"
#include "core/profile/heap_profile.h"

namespace seemalloc::profile {

// What is known of one live sample.
struct LiveSample {
  Bucket* bucket;  // stack, allocated bytes, interval
  size_t requested_bytes;
  uint64_t birth_ns;  // CLOCK_MONOTONIC, see life_clock_ns()
  uint32_t thread;    // which allocated it (sampled_threads.h)
};

// What is known of one that was removed.
struct LeftSample {
  Bucket* bucket;
  size_t requested_bytes;
  uint64_t birth_ns;
  uint32_t thread;
};

// Ids that are not in use.
struct IdCache {
  uint32_t count = 0;  // ids in `head`
  SampleId head = 0;
  SampleId full = 0;  // a whole batch in reserve, or 0
};

class LiveTable {
 public:
  constexpr LiveTable() = default;

  // Records a live sample; 0 when memory or ids are used up.
  SampleId add(const LiveSample& sample, IdCache& cache);
  SampleId add(const LiveSample& sample);
  // Forgets it. Returns the bucket it was in, and who allocated it. Requires: id is alive.
  LeftSample remove(SampleId id, IdCache& cache);
  LeftSample remove(SampleId id);
  LiveSample get(SampleId id) const;
  // The same of an id that may be freed meanwhile: its bucket is null then, or what is told is of another sample.
  LiveSample get_if_alive(SampleId id) const;
  // visit(sample) for those that are alive; of what comes and goes meanwhile some.
  template <typename Visit>
  void for_each_alive(Visit visit) const {
    uint64_t end = capacity();
    for (uint64_t id = 1; id < end; id++) {
      LiveSample sample = get_if_alive(static_cast<SampleId>(id));
      if (sample.bucket != nullptr) visit(sample);
    }
  }
  // Requires: id is alive, nobody else changes or removes it meanwhile.
  void set_size(SampleId id, Bucket* bucket, size_t requested_bytes);
  // Records that have ever been made; ids go up to this.
  size_t capacity() const { return fresh_.load(std::memory_order_acquire); }  // pairs with carve_batch_locked()

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
    uint32_t slack_bytes;  // allocated - requested; of a free record the next id of its list
    uint32_t thread;       // of a free record that leads a global batch the next batch
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
  std::atomic<uint64_t> fresh_{0};  // ids below have been carved; written under global_lock_
  std::atomic<Leaf*> root_[size_t{1} << kRootBits] = {};
};

}  // namespace seemalloc::profile

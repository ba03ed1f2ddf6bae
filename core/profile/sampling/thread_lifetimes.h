// ThreadLifetimesTable: how long freed blocks lived, by the thread that allocated them. One record
// per bucket, way of being freed and thread, in addition to the record for all threads
// (lifetimes.h), which keeps counting everything. So records here may be lost or refused, and the
// figures for all threads stay exact: profiles report the difference as "other threads".
//
// There are no records for FreedBy::kOwner, because the bucket identifies that thread. There are
// also none when all blocks are recorded, unless requested (heap_profile.h): they cost 10 % more
// there. There are at most kMaxRecords records, and fewer in a small heap (records.h); a free
// without a record is counted for all threads only.
// Records are kept forever, keyed by the slot of the thread's number (thread_table.h). When the
// slot is given to another thread, that thread's first block resets the record. A late free of a
// block of the slot's former thread is recognised by the thread's number, and not counted here.
// Threads: any; a known record is found without a lock. Memory: 152 bytes per record, plus the
// slots of the table.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "core/profile/sampling/intern_table.h"
#include "core/profile/sampling/lifetimes.h"

namespace seemalloc::profile {

struct Bucket;

struct ThreadLifetimes {
  uint64_t hash;
  const Bucket* bucket;
  uint16_t slot;                 // slot of the thread's number
  uint16_t freed_by;             // a FreedBy
  std::atomic<uint32_t> thread;  // its number; 0: the record is being reset
  Lifetimes lifetimes;
};
static_assert(sizeof(ThreadLifetimes) == 152);

class ThreadLifetimesTable {
 public:
  static constexpr size_t kMaxRecords = 8192;

  constexpr ThreadLifetimesTable() = default;
  // Counts the free of a block of `thread`, which has been counted for all threads already.
  // Requires: is_thread_number(thread); by ≠ kOwner; if `by` is kSame, `thread` is the calling
  // thread. Makes no record beyond `most`, which is at most kMaxRecords.
  void add(const Bucket& bucket, FreedBy by, uint32_t thread, uint64_t lived_ns,
           size_t most = kMaxRecords);
  size_t size() const { return made_.load(std::memory_order_relaxed); }
  bool is_full(size_t most = kMaxRecords) const { return size() >= most; }
  template <typename Visit>
  void for_each(Visit visit) const {
    table_.for_each(visit);
  }
  void lock_all() { table_.lock_all(); }
  void unlock_all() { table_.unlock_all(); }

 private:
  ThreadLifetimes* make(uint64_t hash, const Bucket& bucket, FreedBy by, uint32_t thread);

  InternTable<ThreadLifetimes> table_;
  std::atomic<size_t> made_{0};
};

}  // namespace seemalloc::profile

// How long freed blocks have lived, by the thread that allocated them: a record for a bucket, a way of being freed and a thread, beside
// the one for all threads (lifetimes.h), which goes on counting everything. So what is kept here may be lost or refused, and what
// profiles say of all threads stays exact: the difference is the "other threads'".
//
// Not of FreedBy::kOwner: the bucket itself knows whose those are. Nor where all blocks are recorded, unless that is asked for (heap_profile.h):
// there it took a tenth more. There are at most kMost records, and fewer where little is in use (records.h); what finds no room is
// counted for all only.
// They are kept for ever, by the place of the thread's number (thread_names.h): when the place is given to another thread, the first
// block of that one begins the record anew. A thread that is late with a free for the one before is told by its number, and not counted here.
// Threads: any; a known record is found without a lock. Memory: 152 bytes each, and the slots of the table.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "core/profile/intern_table.h"
#include "core/profile/lifetimes.h"

namespace seemalloc::profile {

struct Bucket;

struct ThreadLives {
  uint64_t hash;
  const Bucket* bucket;
  uint16_t place;  // of the thread's number
  uint16_t way;    // a FreedBy
  std::atomic<uint32_t> thread;  // its number; 0: the record is being begun anew
  Lifetimes lives;
};
static_assert(sizeof(ThreadLives) == 152);

class ThreadLivesTable {
 public:
  static constexpr size_t kMost = 8192;

  constexpr ThreadLivesTable() = default;
  // A block of `thread` has been freed, and counted for all threads. Requires: has_number(thread); by ≠ kOwner; where it is kSame
  // the calling thread is that one. No record is made beyond `most`, which is at most kMost.
  void add(const Bucket& bucket, FreedBy by, uint32_t thread, uint64_t lived_ns, size_t most = kMost);
  size_t size() const { return made_.load(std::memory_order_relaxed); }
  bool is_full(size_t most = kMost) const { return size() >= most; }
  template <typename Visit>
  void for_each(Visit visit) const {
    table_.for_each(visit);
  }
  void lock_all() { table_.lock_all(); }
  void unlock_all() { table_.unlock_all(); }

 private:
  ThreadLives* make(uint64_t hash, const Bucket& bucket, FreedBy by, uint32_t thread);

  InternTable<ThreadLives> table_;
  std::atomic<size_t> made_{0};
};

}  // namespace seemalloc::profile

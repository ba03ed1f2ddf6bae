#include "core/profile/sampling/thread_lifetimes.h"

#include "core/os/runtime/arena.h"
#include "core/profile/sampling/bucket_table.h"
#include "core/profile/sampling/thread_table.h"

namespace seemalloc::profile {

namespace {

// Resets the record for `thread`. Returns false if it belongs to a later thread of the slot, or if
// another thread is resetting it.
bool reset_for_thread(ThreadLifetimes& record, uint32_t thread) {
  uint32_t before = record.thread.load(std::memory_order_acquire);
  if (before == thread) return true;
  if (before == 0 || !ThreadTable::is_newer(thread, before)) return false;
  if (!record.thread.compare_exchange_strong(before, 0, std::memory_order_acq_rel)) return false;
  record.lifetimes.clear();
  record.thread.store(thread, std::memory_order_release);
  return true;
}

}  // namespace

ThreadLifetimes* ThreadLifetimesTable::make(uint64_t hash, const Bucket& bucket, FreedBy by,
                                            uint32_t thread) {
  ThreadLifetimes* fresh = nullptr;
  if (made_.fetch_add(1, std::memory_order_relaxed) < kMaxRecords) {
    fresh = static_cast<ThreadLifetimes*>(
        os::arena_allocate(sizeof(ThreadLifetimes), alignof(ThreadLifetimes)));
  }
  if (fresh == nullptr) {
    made_.fetch_sub(1, std::memory_order_relaxed);
    return nullptr;
  }
  fresh->hash = hash;
  fresh->bucket = &bucket;
  fresh->slot = static_cast<uint16_t>(ThreadTable::slot_of(thread));
  fresh->freed_by = static_cast<uint16_t>(by);
  fresh->thread.store(thread, std::memory_order_relaxed);
  return fresh;
}

void ThreadLifetimesTable::add(const Bucket& bucket, FreedBy by, uint32_t thread, uint64_t lived_ns,
                               size_t most) {
  uint32_t slot = ThreadTable::slot_of(thread);
  unsigned freed_by = static_cast<unsigned>(by);
  uint64_t hash = mix(bucket.hash ^ slot, freed_by);
  auto equal = [&](const ThreadLifetimes& known) {
    return known.bucket == &bucket && known.slot == slot && known.freed_by == freed_by;
  };
  ThreadLifetimes* record = table_.find(hash, equal);
  if (SEEMALLOC_UNLIKELY(record == nullptr)) {
    if (is_full(most)) return;  // without a lock
    record = table_.find_or_insert(hash, equal, [&] { return make(hash, bucket, by, thread); });
    if (record == nullptr) return;
  }
  if (SEEMALLOC_UNLIKELY(record->thread.load(std::memory_order_acquire) != thread) &&
      !reset_for_thread(*record, thread))
    return;
  by == FreedBy::kSameThread ? record->lifetimes.add_single_writer(lived_ns)
                             : record->lifetimes.add(lived_ns);
}

}  // namespace seemalloc::profile

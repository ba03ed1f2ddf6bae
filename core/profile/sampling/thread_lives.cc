#include "core/profile/sampling/thread_lives.h"

#include "core/os/runtime/arena.h"
#include "core/profile/sampling/bucket_table.h"
#include "core/profile/sampling/thread_names.h"

namespace seemalloc::profile {

namespace {

// Resets the record for `thread`. Returns false if it belongs to a later thread of the slot, or if
// another thread is resetting it.
bool begin_anew(ThreadLives& record, uint32_t thread) {
  uint32_t before = record.thread.load(std::memory_order_acquire);
  if (before == thread) return true;
  if (before == 0 || !ThreadNames::is_later(thread, before)) return false;
  if (!record.thread.compare_exchange_strong(before, 0, std::memory_order_acq_rel)) return false;
  record.lives.clear();
  record.thread.store(thread, std::memory_order_release);
  return true;
}

}  // namespace

ThreadLives* ThreadLivesTable::make(uint64_t hash, const Bucket& bucket, FreedBy by,
                                    uint32_t thread) {
  ThreadLives* fresh = nullptr;
  if (made_.fetch_add(1, std::memory_order_relaxed) < kMost) {
    fresh =
        static_cast<ThreadLives*>(os::arena_allocate(sizeof(ThreadLives), alignof(ThreadLives)));
  }
  if (fresh == nullptr) {
    made_.fetch_sub(1, std::memory_order_relaxed);
    return nullptr;
  }
  fresh->hash = hash;
  fresh->bucket = &bucket;
  fresh->place = static_cast<uint16_t>(ThreadNames::place_of(thread));
  fresh->way = static_cast<uint16_t>(by);
  fresh->thread.store(thread, std::memory_order_relaxed);
  return fresh;
}

void ThreadLivesTable::add(const Bucket& bucket, FreedBy by, uint32_t thread, uint64_t lived_ns,
                           size_t most) {
  uint32_t place = ThreadNames::place_of(thread);
  unsigned way = static_cast<unsigned>(by);
  uint64_t hash = mix(bucket.hash ^ place, way);
  auto equal = [&](const ThreadLives& known) {
    return known.bucket == &bucket && known.place == place && known.way == way;
  };
  ThreadLives* record = table_.find(hash, equal);
  if (SEEMALLOC_UNLIKELY(record == nullptr)) {
    if (is_full(most)) return;  // without a lock
    record = table_.find_or_insert(hash, equal, [&] { return make(hash, bucket, by, thread); });
    if (record == nullptr) return;
  }
  if (SEEMALLOC_UNLIKELY(record->thread.load(std::memory_order_acquire) != thread) &&
      !begin_anew(*record, thread))
    return;
  by == FreedBy::kSame ? record->lives.add_alone(lived_ns) : record->lives.add(lived_ns);
}

}  // namespace seemalloc::profile

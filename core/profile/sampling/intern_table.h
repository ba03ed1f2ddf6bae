// InternTable: a set of records that only grows. Each distinct record is stored once, forever, at a
// fixed address.
//
// Used for stacks and buckets. Open addressing over arrays of pointers, sharded by hash; records
// and arrays are allocated from the arena. An outgrown array is never freed (readers may still use
// it), so arrays take at most twice the memory of the current ones: ≤ 43 bytes per record.
// Threads: find() and for_each() take no lock; an insertion takes the lock of one shard.
// Invariants: 1. a slot changes from null to a record once and never again; 2. a published array
// has every record inserted before it was published; 3. an array always has a null slot, which ends
// a search; 4. the decision that a record is new is made under the shard's lock on the newest
// array, so there are no duplicates.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "core/base/check.h"
#include "core/base/units.h"
#include "core/os/runtime/arena.h"
#include "core/os/runtime/lock.h"

namespace seemalloc::profile {

// Mixes two words into a hash. The order of the arguments matters.
inline uint64_t mix(uint64_t a, uint64_t b) {
  __extension__ using Wide = unsigned __int128;
  Wide product = static_cast<Wide>(a ^ 0x9E3779B97F4A7C15u) * (b ^ 0xD6E8FEB86659FD93u);
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

// Record has a member `uint64_t hash`, which is set before the insertion.
template <typename Record>
class InternTable {
 public:
  constexpr InternTable() = default;

  // Returns the record with this hash for which equal(record) holds. May miss a record that is
  // being inserted concurrently.
  template <typename Equal>
  Record* find(uint64_t hash, Equal equal) const {
    // Pairs with the release store in grow_if_needed_locked().
    const Slots* slots = shard(hash).slots.load(std::memory_order_acquire);
    return slots == nullptr ? nullptr : find_in(*slots, hash, equal);
  }

  // Like find(), but inserts the result of make() if there is no such record. Returns null if
  // memory is refused. make() runs under the shard's lock and returns a complete record or null.
  template <typename Equal, typename Make>
  Record* find_or_insert(uint64_t hash, Equal equal, Make make) {
    if (Record* known = find(hash, equal)) return known;
    Shard& home = shard(hash);
    LockGuard guard(home.lock);
    Slots* slots = home.slots.load(std::memory_order_relaxed);
    if (slots != nullptr) {
      if (Record* known = find_in(*slots, hash, equal)) return known;
    }
    slots = grow_if_needed_locked(home, slots);
    if (slots == nullptr) return nullptr;
    Record* record = make();
    if (record == nullptr) return nullptr;
    DCHECK(record->hash == hash);
    insert(*slots, record, std::memory_order_release);
    home.count.store(home.count.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    return record;
  }

  // Calls visit(record) for every record inserted before the call began, and perhaps for some
  // inserted since.
  template <typename Visit>
  void for_each(Visit visit) const {
    for (const Shard& each : shards_) {
      const Slots* slots = each.slots.load(std::memory_order_acquire);
      if (slots == nullptr) continue;
      for (size_t i = 0; i <= slots->mask; i++) {
        // Pairs with the release store in insert().
        Record* record = slots->at[i].load(std::memory_order_acquire);
        if (record != nullptr) visit(*record);
      }
    }
  }

  size_t size() const {
    size_t count = 0;
    for (const Shard& each : shards_) count += each.count.load(std::memory_order_relaxed);
    return count;
  }

  void lock_all() {
    for (Shard& each : shards_) each.lock.lock_for_fork();
  }
  void unlock_all() {
    for (Shard& each : shards_) each.lock.unlock_after_fork();
  }

 private:
  static constexpr size_t kShardBits = 5;
  static constexpr size_t kFirstSlots = 16;

  struct Slots {
    size_t mask;  // slots - 1
    std::atomic<Record*>* at;
  };

  struct alignas(kCacheLineBytes) Shard {
    Lock lock;
    std::atomic<Slots*> slots{nullptr};
    std::atomic<size_t> count{0};  // written under the lock
  };

  // The shard is chosen by the upper bits of the hash, the slot by the lower ones.
  Shard& shard(uint64_t hash) { return shards_[hash >> (64 - kShardBits)]; }
  const Shard& shard(uint64_t hash) const { return shards_[hash >> (64 - kShardBits)]; }

  template <typename Equal>
  static Record* find_in(const Slots& slots, uint64_t hash, Equal equal) {
    for (size_t i = hash & slots.mask;; i = (i + 1) & slots.mask) {
      Record* record = slots.at[i].load(std::memory_order_acquire);
      if (record == nullptr) return nullptr;  // invariant 3
      if (record->hash == hash && equal(*record)) return record;
    }
  }

  static void insert(Slots& slots, Record* record, std::memory_order order) {
    size_t i = record->hash & slots.mask;
    while (slots.at[i].load(std::memory_order_relaxed) != nullptr) i = (i + 1) & slots.mask;
    slots.at[i].store(record, order);
  }

  static Slots* make_slots(size_t count) {
    void* memory =
        os::arena_allocate(sizeof(Slots) + count * sizeof(std::atomic<Record*>), kCacheLineBytes);
    if (memory == nullptr) return nullptr;
    Slots* slots = static_cast<Slots*>(memory);
    slots->mask = count - 1;
    // Arena memory is zero: all null.
    slots->at = reinterpret_cast<std::atomic<Record*>*>(slots + 1);
    return slots;
  }

  // Returns the array for the insertion of one more record: at most 3/4 full, or fuller if a larger
  // one is refused.
  Slots* grow_if_needed_locked(Shard& home, Slots* slots) {
    size_t count = home.count.load(std::memory_order_relaxed);
    size_t capacity = slots == nullptr ? 0 : slots->mask + 1;
    if ((count + 1) * 4 <= capacity * 3) return slots;
    Slots* larger = make_slots(capacity == 0 ? kFirstSlots : capacity * 2);
    if (larger == nullptr) return count + 2 <= capacity ? slots : nullptr;  // invariant 3
    for (size_t i = 0; i < capacity; i++) {
      Record* record = slots->at[i].load(std::memory_order_relaxed);
      if (record != nullptr) insert(*larger, record, std::memory_order_relaxed);
    }
    home.slots.store(larger, std::memory_order_release);  // invariant 2
    return larger;
  }

  Shard shards_[size_t{1} << kShardBits];
};

}  // namespace seemalloc::profile

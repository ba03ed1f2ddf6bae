// PoolTable: the sampled blocks of memory pools that are in use, found by pool and address.
//
// A pool's free has only an address to go by, and nearly all blocks are no samples: may_hold() answers those with one load.
// Open addressing in shards by hash; arrays come from the arena and double, one that was outgrown is left where it is (at most as
// much again as the current ones).
// Threads: any; each shard has a lock. may_hold() takes none: whoever frees a block has got it from whoever added it.
// Invariants: 1. an array has at least a null slot, which ends a search; 2. from a record's home slot to where it stands no slot
// is null: what stands behind a removed one moves up; 3. filter_[i] counts the records whose address falls to i.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "core/base/units.h"
#include "core/os/arena.h"
#include "core/os/lock.h"
#include "core/profile/intern_table.h"

namespace seemalloc::profile {

struct Pool;
struct PoolSite;

struct PoolSample {
  uintptr_t block;  // 0: the slot is empty
  Pool* pool;
  PoolSite* site;
  uint64_t bytes;
  uint64_t interval_bytes;
};

class PoolTable {
 public:
  constexpr PoolTable() = default;

  // False: no sample is at this address, in no pool.
  bool may_hold(uintptr_t block) const { return filter(block).load(std::memory_order_relaxed) != 0; }

  // Requires: not in the table. False when memory is refused.
  bool add(const PoolSample& sample) {
    uint64_t hash = hash_of(sample.block, sample.pool);
    Shard& home = shard(hash);
    LockGuard guard(home.lock);
    if (!make_room_locked(home)) return false;
    place(home, sample);
    home.count++;
    filter(sample.block).fetch_add(1, std::memory_order_relaxed);
    return true;
  }

  // Takes the sample out; false when there is none.
  bool remove(uintptr_t block, const Pool* pool, PoolSample* out) {
    uint64_t hash = hash_of(block, pool);
    Shard& home = shard(hash);
    LockGuard guard(home.lock);
    if (home.slots == nullptr) return false;
    for (size_t i = hash & home.mask; home.slots[i].block != 0; i = (i + 1) & home.mask) {
      if (home.slots[i].block != block || home.slots[i].pool != pool) continue;
      *out = home.slots[i];
      remove_at(home, i);
      return true;
    }
    return false;
  }

  // Takes all samples of a pool out, until it has been `most`: taken(sample) for each, under a lock.
  template <typename Taken>
  void remove_all(const Pool* pool, uint64_t most, Taken taken) {
    for (Shard& each : shards_) {
      if (most == 0) return;
      LockGuard guard(each.lock);
      if (each.slots == nullptr) continue;
      for (size_t i = 0; i <= each.mask && most != 0;) {
        if (each.slots[i].block == 0 || each.slots[i].pool != pool) {
          i++;
          continue;
        }
        PoolSample sample = each.slots[i];
        remove_at(each, i);  // another may have moved here
        taken(sample);
        most--;
      }
    }
  }

  // visit(sample) for each, under a lock.
  template <typename Visit>
  void for_each(Visit visit) {
    for (Shard& each : shards_) {
      LockGuard guard(each.lock);
      for (size_t i = 0; each.slots != nullptr && i <= each.mask; i++) {
        if (each.slots[i].block != 0) visit(each.slots[i]);
      }
    }
  }

  void lock_all() {
    for (Shard& each : shards_) each.lock.lock_for_fork();
  }
  void unlock_all() {
    for (Shard& each : shards_) each.lock.unlock_after_fork();
  }

 private:
  static constexpr size_t kShardBits = 5;
  static constexpr size_t kFilterBits = 14;
  static constexpr size_t kFirstSlots = 16;

  struct alignas(kCacheLineBytes) Shard {
    Lock lock;
    PoolSample* slots;
    size_t mask;  // slots - 1
    size_t count;
  };

  static uint64_t hash_of(uintptr_t block, const Pool* pool) { return mix(block, reinterpret_cast<uintptr_t>(pool)); }
  Shard& shard(uint64_t hash) { return shards_[hash >> (64 - kShardBits)]; }
  std::atomic<uint32_t>& filter(uintptr_t block) { return filter_[block * 0x9E3779B97F4A7C15u >> (64 - kFilterBits)]; }
  const std::atomic<uint32_t>& filter(uintptr_t block) const { return filter_[block * 0x9E3779B97F4A7C15u >> (64 - kFilterBits)]; }

  static void place(Shard& home, const PoolSample& sample) {
    size_t i = hash_of(sample.block, sample.pool) & home.mask;
    while (home.slots[i].block != 0) i = (i + 1) & home.mask;
    home.slots[i] = sample;
  }

  void remove_at(Shard& home, size_t hole) {
    filter(home.slots[hole].block).fetch_sub(1, std::memory_order_relaxed);
    home.count--;
    for (size_t i = (hole + 1) & home.mask; home.slots[i].block != 0; i = (i + 1) & home.mask) {
      size_t wanted = hash_of(home.slots[i].block, home.slots[i].pool) & home.mask;
      if (((i - wanted) & home.mask) < ((i - hole) & home.mask)) continue;  // it stands behind the hole by right
      home.slots[hole] = home.slots[i];
      hole = i;
    }
    home.slots[hole].block = 0;
  }

  // For one more: at most 3/4 full, or fuller when a larger array is refused (invariant 1).
  static bool make_room_locked(Shard& home) {
    size_t capacity = home.slots == nullptr ? 0 : home.mask + 1;
    if ((home.count + 1) * 4 <= capacity * 3) return true;
    size_t wanted = capacity == 0 ? kFirstSlots : capacity * 2;
    auto* larger = static_cast<PoolSample*>(os::arena_allocate(wanted * sizeof(PoolSample), alignof(PoolSample)));
    if (larger == nullptr) return home.count + 2 <= capacity;
    PoolSample* before = home.slots;
    home.slots = larger;
    home.mask = wanted - 1;
    for (size_t i = 0; i < capacity; i++) {
      if (before[i].block != 0) place(home, before[i]);
    }
    return true;
  }

  Shard shards_[size_t{1} << kShardBits] = {};
  std::atomic<uint32_t> filter_[size_t{1} << kFilterBits] = {};
};

}  // namespace seemalloc::profile

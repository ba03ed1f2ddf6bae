// PoolTable: the live sampled blocks of memory pools, indexed by pool and address.
//
// A pool's free has only an address, and nearly all blocks are not sampled: may_hold() detects
// those with one load. Open addressing, sharded by pool. Arrays come from the arena and double in
// size; an outgrown array is never freed (all outgrown arrays together are at most as large as the
// current ones). The samples of a pool form a list, so the cost of emptying it is proportional to
// its samples.
// Threads: any; each shard has a lock. may_hold() takes none: the thread that frees a block has
// received it from the thread that added it.
// Invariants: 1. an array has at least one null slot, which ends a search; 2. there is no null slot
// between a record's home slot and its actual slot: records after a removed one move up; 3.
// filter_[i] counts the records whose address hashes to i; 4. the records of a pool are linked from
// Pool::first by slot numbers, each once; they are in one shard.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "core/base/units.h"
#include "core/os/runtime/arena.h"
#include "core/os/runtime/lock.h"
#include "core/profile/sampling/intern_table.h"

namespace seemalloc::profile {

struct PoolName;
struct PoolStack;

struct Pool {
  Pool* next;  // in the list of reusable pools; otherwise unspecified
  const PoolName* name;
  std::atomic<uint64_t> live_samples;
  uint32_t first;  // used by the table: start of the pool's list of samples; 0: none
};

struct PoolSample {
  uintptr_t block;  // 0: the slot is empty
  Pool* pool;
  PoolStack* site;
  uint64_t bytes;
  uint64_t interval_bytes;
  // Used by the table: 1 + the slots of the pool's next and previous samples, 0 at the ends.
  uint32_t next = 0, previous = 0;
};

class PoolTable {
 public:
  constexpr PoolTable() = default;

  // Returns false if no pool has a sample at this address.
  bool may_hold(uintptr_t block) const {
    return filter(block).load(std::memory_order_relaxed) != 0;
  }

  // Requires: not in the table. Returns false if memory is refused.
  bool add(const PoolSample& sample) {
    Shard& home = shard(sample.pool);
    LockGuard guard(home.lock);
    if (!reserve_locked(home)) return false;
    place(home, sample);
    home.count++;
    filter(sample.block).fetch_add(1, std::memory_order_relaxed);
    return true;
  }

  // Removes the sample. Returns false if there is none.
  bool remove(uintptr_t block, const Pool* pool, PoolSample* out) {
    Shard& home = shard(pool);
    LockGuard guard(home.lock);
    if (home.slots == nullptr) return false;
    for (size_t i = hash_of(block, pool) & home.mask; home.slots[i].block != 0;
         i = (i + 1) & home.mask) {
      if (home.slots[i].block != block || home.slots[i].pool != pool) continue;
      *out = home.slots[i];
      remove_at(home, i);
      return true;
    }
    return false;
  }

  // Removes up to `most` samples of a pool, and calls taken(sample) for each, under a lock.
  template <typename Taken>
  void remove_all(const Pool* pool, uint64_t most, Taken taken) {
    Shard& home = shard(pool);
    LockGuard guard(home.lock);
    for (; pool->first != 0 && most != 0; most--) {
      PoolSample sample = home.slots[pool->first - 1];
      remove_at(home, pool->first - 1);
      taken(sample);
    }
  }

  // Calls visit(sample) for each sample, under a lock.
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
  static constexpr size_t kMaxSlots = size_t{1} << 31;  // numbers have 32 bits

  struct alignas(kCacheLineBytes) Shard {
    Lock lock;
    PoolSample* slots;
    size_t mask;  // slots - 1
    size_t count;
  };

  static uint64_t hash_of(uintptr_t block, const Pool* pool) {
    return mix(block, reinterpret_cast<uintptr_t>(pool));
  }
  Shard& shard(const Pool* pool) {
    return shards_[mix(reinterpret_cast<uintptr_t>(pool), 0) >> (64 - kShardBits)];
  }
  std::atomic<uint32_t>& filter(uintptr_t block) {
    return filter_[block * 0x9E3779B97F4A7C15u >> (64 - kFilterBits)];
  }
  const std::atomic<uint32_t>& filter(uintptr_t block) const {
    return filter_[block * 0x9E3779B97F4A7C15u >> (64 - kFilterBits)];
  }

  static void place(Shard& home, const PoolSample& sample) {
    size_t i = hash_of(sample.block, sample.pool) & home.mask;
    while (home.slots[i].block != 0) i = (i + 1) & home.mask;
    PoolSample& placed = home.slots[i];
    placed = sample;
    placed.next = sample.pool->first;
    placed.previous = 0;
    update_links(home, placed, number(i), number(i));
  }

  static uint32_t number(size_t slot) { return static_cast<uint32_t>(slot + 1); }
  // Sets the link to the predecessor in the sample's successor to `before`, and the link to the
  // successor in its predecessor to `after`.
  static void update_links(Shard& home, const PoolSample& sample, uint32_t before, uint32_t after) {
    if (sample.next != 0) home.slots[sample.next - 1].previous = before;
    (sample.previous != 0 ? home.slots[sample.previous - 1].next : sample.pool->first) = after;
  }

  void remove_at(Shard& home, size_t hole) {
    filter(home.slots[hole].block).fetch_sub(1, std::memory_order_relaxed);
    home.count--;
    const PoolSample& gone = home.slots[hole];
    update_links(home, gone, gone.previous, gone.next);
    for (size_t i = (hole + 1) & home.mask; home.slots[i].block != 0; i = (i + 1) & home.mask) {
      size_t wanted = hash_of(home.slots[i].block, home.slots[i].pool) & home.mask;
      // Its home slot is after the hole.
      if (((i - wanted) & home.mask) < ((i - hole) & home.mask)) continue;
      home.slots[hole] = home.slots[i];
      update_links(home, home.slots[hole], number(hole), number(hole));
      hole = i;
    }
    home.slots[hole].block = 0;
  }

  // Makes room for one more: at most 3/4 full, or fuller if a larger array is refused (invariant
  // 1).
  static bool reserve_locked(Shard& home) {
    size_t capacity = home.slots == nullptr ? 0 : home.mask + 1;
    if ((home.count + 1) * 4 <= capacity * 3) return true;
    size_t wanted = capacity == 0 ? kFirstSlots : capacity * 2;
    if (wanted > kMaxSlots) return home.count + 2 <= capacity;
    auto* larger = static_cast<PoolSample*>(
        os::arena_allocate(wanted * sizeof(PoolSample), alignof(PoolSample)));
    if (larger == nullptr) return home.count + 2 <= capacity;
    PoolSample* before = home.slots;
    home.slots = larger;
    home.mask = wanted - 1;
    for (size_t i = 0; i < capacity; i++) {
      if (before[i].block != 0) before[i].pool->first = 0;
    }
    for (size_t i = 0; i < capacity; i++) {
      if (before[i].block != 0) place(home, before[i]);
    }
    return true;
  }

  Shard shards_[size_t{1} << kShardBits] = {};
  std::atomic<uint32_t> filter_[size_t{1} << kFilterBits] = {};
};

}  // namespace seemalloc::profile

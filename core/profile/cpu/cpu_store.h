// CpuSampleStore: collects the samples of the profiling signal's handler: a hash table of stacks by
// thread with their counts, and a ring for samples that were evicted from it.
//
// add() runs in signal handlers, in any number of threads at once. It never waits and makes no
// calls out of the store. A set of the table is held by one writer at a time. A writer that finds
// the set held puts its sample into the ring, which many writers can use at once. The reader, one
// at a time and not in a handler, takes from both; in the ring no writer waits for it.
// Invariants: 1. each interrupt added is in exactly one place: in the table, in the ring, taken, or
// counted as lost.
// 2. a slot of the ring with turn 2·lap is free for its writer of that lap; with 2·lap + 1 it
//    belongs to the reader.
// 3. the contents of a set are written by its holder only; its bit in used_ is set before the set
//    is released.
// The object is in zeroed memory of its own, of sizeof(CpuSampleStore) bytes.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "core/base/compiler.h"
#include "core/base/units.h"
#include "core/os/kernel/wait.h"
#include "core/profile/sampling/stack.h"
#include "core/profile/sampling/stack_table.h"

namespace seemalloc::profile {

// One stack of one thread, and how often it was sampled.
struct CpuSample {
  uint64_t hash;        // of the stack
  uint64_t interrupts;  // 0: the entry is empty
  uint64_t ticks;       // timer periods that these stand for; at least as many
  uint32_t thread;      // its number in the profile's ThreadTable; 0: one of the other threads
  uint32_t depth;
  bool truncated, broken;
  uintptr_t pcs[kMaxStackDepth];

  bool matches(uint64_t stack_hash, const Stack& stack, uint32_t of_thread) const;
  void begin(uint64_t stack_hash, const Stack& stack, uint32_t of_thread);
  void copy_from(const CpuSample& other);
};

// A ring with many writers and one reader.
class CpuSampleRing {
 public:
  static constexpr uint64_t kSlots = 512;

  // fill(sample) writes the sample. Returns false if there is no room.
  template <typename Fill>
  bool put(Fill fill) {
    uint64_t position = head_.load(std::memory_order_relaxed);
    for (;;) {
      Slot& slot = slots_[position % kSlots];
      uint64_t free = 2 * (position / kSlots);
      // Pairs with the store in take().
      uint64_t turn = slot.turn.load(std::memory_order_acquire);
      if (turn < free) return false;
      if (turn > free) {
        position = head_.load(std::memory_order_relaxed);
      } else if (head_.compare_exchange_weak(position, position + 1, std::memory_order_relaxed)) {
        fill(slot.sample);
        slot.turn.store(free + 1, std::memory_order_release);
        return true;
      }
    }
  }

  // Calls visit(sample) for each sample in the ring; samples added meanwhile may be included.
  template <typename Visit>
  void take(Visit visit) {
    for (;;) {
      Slot& slot = slots_[tail_ % kSlots];
      uint64_t full = 2 * (tail_ / kSlots) + 1;
      // Pairs with the store in put().
      if (slot.turn.load(std::memory_order_acquire) != full) return;
      visit(slot.sample);
      slot.turn.store(full + 1, std::memory_order_release);
      tail_++;
    }
  }

  // The approximate number of waiting samples. For the reader.
  uint64_t waiting() const { return head_.load(std::memory_order_relaxed) - tail_; }

 private:
  struct Slot {
    std::atomic<uint64_t> turn;
    CpuSample sample;
  };
  alignas(kCacheLineBytes) std::atomic<uint64_t> head_;
  alignas(kCacheLineBytes) uint64_t tail_;
  Slot slots_[kSlots];
};

class CpuSampleStore {
 public:
  static constexpr size_t kSets = 512;
  static constexpr size_t kWays = 4;

  CpuSampleStore() = delete;

  // The thread was interrupted at this stack, `ticks` periods of its timer after the last
  // interrupt.
  void add(const Stack& stack, uint32_t thread, uint64_t ticks);

  // For the reader: calls visit(sample) for the samples in the ring.
  template <typename Visit>
  void take_evicted(Visit visit) {
    ring_.take(visit);
  }
  // For the reader: calls visit(sample) for everything. Returns false if a set was held all the
  // time by a writer that does not run; its samples stay.
  template <typename Visit>
  bool take_all(Visit visit) {
    take_evicted(visit);
    bool all = true;
    for (size_t i = 0; i < kSets; i++) {
      if ((used_[i / 64].load(std::memory_order_acquire) >> i % 64 & 1) != 0)
        all &= take_set(sets_[i], visit);
    }
    take_evicted(visit);
    return all;
  }
  bool ring_is_half_full() const { return ring_.waiting() > CpuSampleRing::kSlots / 2; }

  uint64_t evictions() const { return evictions_.load(std::memory_order_relaxed); }
  // Interrupts whose stacks found no room, and the timer periods that they stand for.
  uint64_t lost() const { return lost_.load(std::memory_order_relaxed); }
  uint64_t lost_ticks() const { return lost_ticks_.load(std::memory_order_relaxed); }

 private:
  struct Set {
    std::atomic<uint32_t> locked;
    CpuSample ways[kWays];

    bool try_lock() {
      uint32_t free = 0;
      return locked.compare_exchange_strong(free, 1, std::memory_order_acquire,
                                            std::memory_order_relaxed);
    }
    void unlock() { locked.store(0, std::memory_order_release); }
    CpuSample& entry_for(uint64_t hash, const Stack& stack, uint32_t thread);
  };

  void add_locked(size_t index, uint64_t hash, const Stack& stack, uint32_t thread, uint64_t ticks);
  void count_lost(uint64_t interrupts, uint64_t ticks);

  template <typename Visit>
  bool take_set(Set& set, Visit visit) {
    constexpr unsigned kMaxTries = 1000;
    for (unsigned tries = 0; !set.try_lock(); tries++) {
      if (tries == kMaxTries) return false;
      os::pause(50 * kMicrosecondNs);
    }
    for (CpuSample& sample : set.ways) {
      if (sample.interrupts == 0) continue;
      visit(sample);
      sample.interrupts = 0;
    }
    set.unlock();
    return true;
  }

  std::atomic<uint64_t> evictions_, lost_, lost_ticks_;
  std::atomic<uint64_t> used_[kSets / 64];  // lets the reader skip unused memory
  Set sets_[kSets];
  CpuSampleRing ring_;
};

}  // namespace seemalloc::profile

// ThreadTable: numbers threads and stores their names. A sample stores a thread's number, so that a
// profile can name threads that have exited.
//
// A number identifies one thread, even if the kernel gives that thread's id to another. It consists
// of a slot in the table, of which there are kMaxThreads, and a count of how often the slot was
// reassigned. So data with the number of a forgotten thread is attributed to no thread, never to
// another one. Threads without a number are among the "other threads". A thread's name is the last
// one known: it is read when the thread gets its number, when a profile is written, and when the
// thread exits. Zeroed memory is an empty table.
// Threads: any. The lock is the innermost except the arena's, and is not held during system calls.
// Invariant: a slot is reassigned only if its thread had exited before recycling began, and no
// sample has its number since.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "core/os/process/threads.h"
#include "core/os/runtime/lock.h"

namespace seemalloc::profile {

class ThreadTable {
 public:
  // Slots are 1 … kMaxThreads, and so are the numbers at first.
  static constexpr uint32_t kMaxThreads = 4096;
  static constexpr unsigned kSlotBits = 13;
  static constexpr uint32_t slot_of(uint32_t number) { return number & ((1u << kSlotBits) - 1); }
  // For two numbers of one slot: whether the first was assigned after the second.
  static constexpr bool is_newer(uint32_t number, uint32_t than) {
    return static_cast<int16_t>((number >> kSlotBits) - (than >> kSlotBits)) > 0;
  }

  struct Thread {
    uint32_t id = 0;  // the kernel's thread id; 0: the number belongs to no thread
    char name[os::kThreadNameBytes] = {};
  };
  // The slots whose numbers occur in samples.
  struct SlotSet {
    uint64_t bits[kMaxThreads / 64] = {};
    void set(uint32_t place) { bits[(place - 1) / 64] |= uint64_t{1} << (place - 1) % 64; }
    bool has(uint32_t place) const { return (bits[(place - 1) / 64] >> (place - 1) % 64 & 1) != 0; }
  };

  constexpr ThreadTable() = default;

  // Assigns a number to a thread that has none. Long names are cut off. Returns 0 if all slots are
  // taken. Requires: id < 2^30.
  uint32_t add(uint32_t id, const char* name);
  // The calling thread exits.
  void thread_exits(uint32_t number);
  // A thread has exited some time ago.
  void mark_exited(uint32_t number);
  // The calling thread has got two numbers, and keeps the first. second = 0: it got only one.
  void keep_first_number(uint32_t first, uint32_t second);
  // Reads the names of the running threads.
  void refresh();
  // Returns a Thread with id 0 if the number's thread has been forgotten.
  Thread get(uint32_t number);
  // In a forked child: only this thread exists, and its kernel id is now `id`. number = 0: it has
  // no number.
  void reset_in_child(uint32_t number, uint32_t id);

  // Recycling makes slots available again, when all are taken or earlier: call begin_recycling(),
  // find the slots that occur in samples, call recycle(). begin_recycling() returns false while
  // another thread recycles, and for kPauseNs after an attempt that freed few slots. An early
  // attempt does not prevent one with kAllTaken.
  enum class When { kEarly, kAllTaken };
  bool begin_recycling(When when = When::kAllTaken);
  void recycle(const SlotSet& in_use);
  // Whether enough threads have been added since the last recycling (`few`, but at most 2 ×
  // kMinRecycled) to make another worthwhile, even if slots are left.
  bool should_recycle(size_t few) const {
    return added_since_recycling_.load(std::memory_order_relaxed) >=
           (few < 2 * kMinRecycled ? few : size_t{2 * kMinRecycled});
  }

  void lock_for_fork() { lock_.lock_for_fork(); }
  void unlock_after_fork() { lock_.unlock_after_fork(); }

 private:
  static constexpr uint64_t kPauseNs = 1000000000;
  static constexpr uint32_t kMinRecycled = kMaxThreads / 16;
  // kCandidate: had exited when recycling began.
  enum State : uint32_t { kFree, kRunning, kExited, kCandidate };

  // An index is a slot - 1.
  State state(uint32_t index) const { return static_cast<State>(states_and_ids_[index] >> 30); }
  uint32_t id(uint32_t index) const { return states_and_ids_[index] & ((1u << 30) - 1); }
  void set(uint32_t index, State state, uint32_t id) { states_and_ids_[index] = state << 30 | id; }
  uint32_t number(uint32_t index) const {
    return static_cast<uint32_t>(reuse_counts_[index]) << kSlotBits | (index + 1);
  }
  bool is_known(uint32_t number) const { return this->number(slot_of(number) - 1) == number; }
  void rename_locked(uint32_t index, const char* name);

  uint32_t take_free_locked();

  Lock lock_;
  uint32_t slots_used_ = 0;  // number of slots ever assigned
  // First slot of the free list; the id field of a free slot is the next one.
  uint32_t free_ = 0;
  bool recycling_ = false;
  // Threads added since recycling; written under the lock.
  std::atomic<uint32_t> added_since_recycling_{0};
  uint64_t not_before_ns_[2] = {};             // earliest time of the next recycling, by When
  uint32_t states_and_ids_[kMaxThreads] = {};  // state and id
  uint16_t reuse_counts_[kMaxThreads] = {};    // how often each slot has been freed
  uint16_t slot_by_id_[kMaxThreads] = {};      // by id modulo kMaxThreads: the slot assigned last
  char names_[kMaxThreads][os::kThreadNameBytes] = {};
};

}  // namespace seemalloc::profile

// Threads by number, and what they are called: a sample keeps a number, and a profile tells of threads that have ended.
//
// A number is one thread's, also when the kernel gives its id to another. It is a place in the table, of which there are kMost, and how
// often that has been given away before: what is still known by the number of a thread that has been forgotten is nobody's, and never
// another's. Who gets none is among the "other threads". A thread's name is the last that is known: it is read when the thread gets its number, when a profile
// is taken, and at the thread's end. Zeroed memory is an empty table.
// Threads: any. The lock is the innermost but the arena's, and not held while the kernel is asked.
// Invariant: a place is given away again only when its thread had ended before recycling began, and no sample has its number since.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "core/os/lock.h"
#include "core/os/threads.h"

namespace seemalloc::profile {

class ThreadNames {
 public:
  static constexpr uint32_t kMost = 4096;  // places are 1 … kMost, and so are the numbers when they are given away first
  static constexpr unsigned kPlaceBits = 13;
  static constexpr uint32_t place_of(uint32_t number) { return number & ((1u << kPlaceBits) - 1); }
  // Of two numbers of one place: whether the first was given away after the second.
  static constexpr bool is_later(uint32_t number, uint32_t than) {
    return static_cast<int16_t>((number >> kPlaceBits) - (than >> kPlaceBits)) > 0;
  }

  struct Thread {
    uint32_t id = 0;  // the kernel's; 0: the number is nobody's
    char name[os::kThreadNameBytes] = {};
  };
  // Which places' numbers samples have.
  struct Marks {
    uint64_t bits[kMost / 64] = {};
    void set(uint32_t place) { bits[(place - 1) / 64] |= uint64_t{1} << (place - 1) % 64; }
    bool has(uint32_t place) const { return (bits[(place - 1) / 64] >> (place - 1) % 64 & 1) != 0; }
  };

  constexpr ThreadNames() = default;

  // A number for a thread that has none; of a longer name the beginning is kept. 0 when all are taken. Requires: id < 2^30.
  uint32_t add(uint32_t id, const char* name);
  // The calling thread ends.
  void end(uint32_t number);
  // A thread has ended some time ago.
  void note_end(uint32_t number);
  // The calling thread has got two numbers, and goes on with the first. 0: there is no second.
  void keep_first(uint32_t first, uint32_t second);
  // Reads the names of the threads that run.
  void refresh();
  // Nobody, when the number's thread has been forgotten.
  Thread get(uint32_t number);
  // In a forked child: only this one lives, and the kernel calls it `id` now. 0: it has no number.
  void keep_only(uint32_t number, uint32_t id);

  // Before, or when, all places are taken: begin, find out which ones samples have, recycle. False while another does it, or when it has
  // not been worth it for less than kPause_ns; what has been done early bars nobody who needs a place.
  enum class When { kEarly, kAllTaken };
  bool begin_recycling(When when = When::kAllTaken);
  void recycle(const Marks& in_use);
  // So many threads have come since then that it may be worth it, taken or not; at least `few`.
  bool may_recycle(size_t few) const {
    return fresh_.load(std::memory_order_relaxed) >= (few < 2 * kWorthIt ? few : size_t{2 * kWorthIt});
  }

  void lock_for_fork() { lock_.lock_for_fork(); }
  void unlock_after_fork() { lock_.unlock_after_fork(); }

 private:
  static constexpr uint64_t kPause_ns = 1000000000;
  static constexpr uint32_t kWorthIt = kMost / 16;
  enum State : uint32_t { kFree, kLives, kEnded, kCandidate };  // kCandidate: had ended when recycling began

  // Indexes are places - 1.
  State state(uint32_t index) const { return static_cast<State>(words_[index] >> 30); }
  uint32_t id(uint32_t index) const { return words_[index] & ((1u << 30) - 1); }
  void set(uint32_t index, State state, uint32_t id) { words_[index] = state << 30 | id; }
  uint32_t number(uint32_t index) const { return static_cast<uint32_t>(before_[index]) << kPlaceBits | (index + 1); }
  bool is_known(uint32_t number) const { return this->number(place_of(number) - 1) == number; }
  void rename_locked(uint32_t index, const char* name);

  uint32_t take_free_locked();

  Lock lock_;
  uint32_t used_ = 0;  // places that have ever been given away
  uint32_t free_ = 0;  // the first of those that came back; in the place of its id the next one stands
  bool recycling_ = false;
  std::atomic<uint32_t> fresh_{0};  // given away since recycling; written under the lock
  uint64_t not_before_ns_[2] = {};  // recycling, by When
  uint32_t words_[kMost] = {};  // state and id
  uint16_t before_[kMost] = {};  // how often each place has come back
  uint16_t last_[kMost] = {};   // by id: the place that it was given last
  char names_[kMost][os::kThreadNameBytes] = {};
};

}  // namespace seemalloc::profile

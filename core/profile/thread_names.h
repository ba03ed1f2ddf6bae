// Threads by number, and what they are called: a sample keeps a number, and a profile tells of threads that have ended.
//
// A number is one thread's, also when the kernel gives its id to another. There are kMost of them; who gets none is among
// the "other threads". A thread's name is the last that is known: it is read when the thread gets its number, when a profile
// is taken, and at the thread's end. Zeroed memory is an empty table.
// Threads: any. The lock is the innermost but the arena's, and not held while the kernel is asked.
// Invariant: a number is given away again only when its thread had ended before recycling began, and no sample has it since.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/os/lock.h"
#include "core/os/threads.h"

namespace seemalloc::profile {

class ThreadNames {
 public:
  static constexpr uint32_t kMost = 4096;  // numbers are 1 … kMost

  struct Thread {
    uint32_t id = 0;  // the kernel's; 0: the number is nobody's
    char name[os::kThreadNameBytes] = {};
  };
  // Which numbers samples have.
  struct Marks {
    uint64_t bits[kMost / 64] = {};
    void set(uint32_t number) { bits[(number - 1) / 64] |= uint64_t{1} << (number - 1) % 64; }
    bool has(uint32_t number) const { return (bits[(number - 1) / 64] >> (number - 1) % 64 & 1) != 0; }
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
  Thread get(uint32_t number);
  // In a forked child: only this one lives, and the kernel calls it `id` now. 0: it has no number.
  void keep_only(uint32_t number, uint32_t id);

  // When all numbers are taken: begin, find out which ones samples have, recycle. False while another does it, or when it has not been
  // worth it for less than kPause_ns.
  bool begin_recycling();
  void recycle(const Marks& in_use);

  void lock_for_fork() { lock_.lock_for_fork(); }
  void unlock_after_fork() { lock_.unlock_after_fork(); }

 private:
  static constexpr uint64_t kPause_ns = 1000000000;
  enum State : uint32_t { kFree, kLives, kEnded, kCandidate };  // kCandidate: had ended when recycling began

  State state(uint32_t index) const { return static_cast<State>(words_[index] >> 30); }
  uint32_t id(uint32_t index) const { return words_[index] & ((1u << 30) - 1); }
  void set(uint32_t index, State state, uint32_t id) { words_[index] = state << 30 | id; }
  void rename_locked(uint32_t index, const char* name);

  uint32_t take_free_locked();

  Lock lock_;
  uint32_t used_ = 0;  // numbers that have ever been given away
  uint32_t free_ = 0;  // the first of those that came back; in the place of its id the next one stands
  bool recycling_ = false;
  uint64_t not_before_ns_ = 0;  // recycling
  uint32_t words_[kMost] = {};  // state and id
  uint16_t last_[kMost] = {};   // by id: the number that it was given last
  char names_[kMost][os::kThreadNameBytes] = {};
};

}  // namespace seemalloc::profile

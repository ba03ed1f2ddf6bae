// Waiting: futexes, pauses, and a memory fence in all threads.
// Does not touch errno, allocate or lock. Threads: any, at any time, including signal handlers.
#pragma once

#include <cstdint>

namespace seemalloc::os {

// Makes every running thread of this process execute a full memory fence (membarrier). Returns
// false when the kernel cannot.
bool fence_all_threads();

// Waits while *word == expected; returns at the latest after `timeout_ns` (0: no limit). Returns
// false when the kernel refuses to wait.
bool futex_wait(const void* word, uint32_t expected, uint64_t timeout_ns = 0);
void futex_wake(const void* word, int count);
// Sleeps for about this time, using the first of several calls that is allowed. An interrupted
// sleep may end early, or begin again.
void pause(uint64_t ns);
// False after pause() has found no allowed call: a thread that would wait in a loop must end.
bool can_pause();

// Slows down a loop whose system call keeps returning at once without a result: a filter may answer
// with the same error for ever, even one that is temporary otherwise (EINTR, EAGAIN).
class LoopBrake {
 public:
  // Called after each return without a result. The first kFreeReturns calls in a row return at
  // once; each later one sleeps twice as long as the one before, up to kMaxPauseNs.
  void slow_down();
  // Called after a result, or after a wait of the expected length.
  void reset() { returns_ = 0; }

  static constexpr unsigned kFreeReturns = 16;
  static constexpr uint64_t kFirstPauseNs = 1000000, kMaxPauseNs = 100000000;

 private:
  unsigned returns_ = 0;
};

// Makes a system call again while a signal interrupts it. Gives up after kMaxInterruptions in a
// row, with -EINTR.
inline constexpr unsigned kMaxInterruptions = LoopBrake::kFreeReturns + 8;
long sys_uninterrupted(long number, long a, long b, long c, long d = 0);

}  // namespace seemalloc::os

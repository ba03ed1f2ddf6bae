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
// Sleeps for about this time, using the first of several calls that is allowed.
void pause(uint64_t ns);
// False after pause() has found no allowed call: a thread that would wait in a loop must end.
bool can_pause();

}  // namespace seemalloc::os

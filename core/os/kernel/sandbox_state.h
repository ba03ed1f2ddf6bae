// Whether system calls are limited now. Read before each system call; written by sandbox.cc, which
// explains it.
#pragma once

#include <sys/syscall.h>

#include <atomic>
#include <cstdint>

#include "core/base/compiler.h"

namespace seemalloc::os {

namespace sandbox {

// The state: one bit, and two counts of filters that are installed or about to be. A filter that
// the kernel refused is subtracted independently of the others.
// The next call that is not basic reads the status file first.
inline constexpr uint64_t kNotAskedYet = 1;
inline constexpr uint64_t kOneOfAThread = 1 << 1, kOneOfAll = uint64_t{1} << 32;
inline constexpr uint64_t kOfThreads = kOneOfAll - kOneOfAThread, kOfAll = ~(kOneOfAll - 1);

extern constinit std::atomic<uint64_t> state;
// The helper thread is not subject to a filter that a thread of the program has installed for
// itself.
extern constinit thread_local bool is_helper __attribute__((tls_model("initial-exec")));

bool is_limited_slow(uint64_t now);

}  // namespace sandbox

constexpr bool is_basic_call(long number) {
  return number == SYS_mmap || number == SYS_munmap || number == SYS_mremap ||
         number == SYS_madvise || number == SYS_futex || number == SYS_mprotect;
}

// Whether this thread may make only basic calls.
inline bool is_limited() {
  uint64_t now = sandbox::state.load(std::memory_order_relaxed);
  return SEEMALLOC_UNLIKELY(now != 0) && sandbox::is_limited_slow(now);
}

// For the helper thread, which ends when all threads are limited. It identifies itself when it
// starts.
inline bool all_threads_are_limited() {
  return (sandbox::state.load(std::memory_order_acquire) & sandbox::kOfAll) != 0;
}
inline void this_thread_is_the_helper() { sandbox::is_helper = true; }
inline bool is_helper_thread() { return sandbox::is_helper; }

}  // namespace seemalloc::os

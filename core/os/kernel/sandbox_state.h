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
inline constexpr uint64_t kNotDetectedYet = 1;
inline constexpr uint64_t kOneThreadFilter = 1 << 1, kOneProcessFilter = uint64_t{1} << 32;
inline constexpr uint64_t kThreadFilters = kOneProcessFilter - kOneThreadFilter,
                          kProcessFilters = ~(kOneProcessFilter - 1);

extern constinit std::atomic<uint64_t> state;
// The helper thread is not subject to a filter that a thread of the program has installed for
// itself.
extern constinit thread_local bool is_helper __attribute__((tls_model("initial-exec")));

bool calls_are_limited_slow(uint64_t now);

}  // namespace sandbox

constexpr bool is_basic_call(long number) {
  return number == SYS_mmap || number == SYS_munmap || number == SYS_mremap ||
         number == SYS_madvise || number == SYS_futex || number == SYS_mprotect;
}

// Whether this thread may make only basic calls.
inline bool calls_are_limited() {
  uint64_t now = sandbox::state.load(std::memory_order_relaxed);
  return SEEMALLOC_UNLIKELY(now != 0) && sandbox::calls_are_limited_slow(now);
}

// For the helper thread, which ends when all threads are limited. It identifies itself when it
// starts.
inline bool all_threads_calls_are_limited() {
  return (sandbox::state.load(std::memory_order_acquire) & sandbox::kProcessFilters) != 0;
}
inline void this_thread_is_the_helper() { sandbox::is_helper = true; }
inline bool is_helper_thread() { return sandbox::is_helper; }

}  // namespace seemalloc::os

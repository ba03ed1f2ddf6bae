// Sandbox: which system calls may be made under a seccomp filter, which may end the process for any other call.
//
// The basic calls are those of malloc itself: mmap, munmap, mremap, madvise, futex. They are always made. So is
// mprotect, which is called only while the process starts, as the dynamic linker has done before (loaded_object.h).
// Once the process is known to be in a sandbox, every other call that we make is refused here, with -EPERM and without
// calling the kernel; each caller degrades as if the kernel had refused. sys() makes the check. How a sandbox is
// detected: docs/decisions/0074.
// Threads: any, signal handlers included.
#pragma once

#include <sys/syscall.h>

#include <atomic>
#include <cstdint>

#include "core/base/compiler.h"

namespace seemalloc::os {

namespace sandbox {

// The state: one bit, and two counts of filters that are installed or about to be. A filter that the kernel refused is
// subtracted independently of the others.
inline constexpr uint64_t kNotAskedYet = 1;  // the next call that is not basic reads the status file first
inline constexpr uint64_t kOneOfAThread = 1 << 1, kOneOfAll = uint64_t{1} << 32;
inline constexpr uint64_t kOfThreads = kOneOfAll - kOneOfAThread, kOfAll = ~(kOneOfAll - 1);

extern constinit std::atomic<uint64_t> state;
// The helper thread is not subject to a filter that a thread of the program has installed for itself.
extern constinit thread_local bool is_helper __attribute__((tls_model("initial-exec")));

bool is_limited_slow(uint64_t now);

}  // namespace sandbox

constexpr bool is_basic_call(long number) {
  return number == SYS_mmap || number == SYS_munmap || number == SYS_mremap || number == SYS_madvise || number == SYS_futex ||
         number == SYS_mprotect;
}

// Whether this thread may make only basic calls.
inline bool is_limited() {
  uint64_t now = sandbox::state.load(std::memory_order_relaxed);
  return SEEMALLOC_UNLIKELY(now != 0) && sandbox::is_limited_slow(now);
}

// For the option `sandbox`: always limited, or never. The default is to detect sandboxes.
void limit_calls();
void never_limit_calls();

// A filter is about to be installed, for the calling thread or for all. The limits apply from now on, unless it is
// refused.
void expect_filter(bool for_all_threads);
void filter_was_refused(bool for_all_threads);

// For the helper thread, which ends when all threads are limited. It identifies itself when it starts.
inline bool all_threads_are_limited() { return (sandbox::state.load(std::memory_order_acquire) & sandbox::kOfAll) != 0; }
inline void this_thread_is_the_helper() { sandbox::is_helper = true; }
inline bool is_helper_thread() { return sandbox::is_helper; }

// For use before a thread is started: a filter may have been installed unnoticed, by a bare system call. Opens a file,
// unless a sandbox is known.
bool is_in_a_sandbox();

}  // namespace seemalloc::os

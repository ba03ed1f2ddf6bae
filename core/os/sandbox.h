// Sandbox: which system calls may still be made under a seccomp filter, which may end the process for any other.
//
// The basic calls are those of malloc itself: mmap, munmap, mremap, madvise, futex. They are always made. So is mprotect, which is called
// only while the process starts, as the dynamic linker has done before (loaded_object.h). Every other call of ours is
// refused here, with -EPERM and without asking the kernel, once the process is known to be in a sandbox: each caller degrades as where
// the kernel refuses. sys() asks. How a sandbox is noticed: docs/decisions/0074.
// Threads: any. Signal handlers too.
#pragma once

#include <sys/syscall.h>

#include <atomic>
#include <cstdint>

#include "core/base/compiler.h"

namespace seemalloc::os {

namespace sandbox {

// The state: one bit, and two counts of filters that were installed or are about to be. One that the kernel
// has refused is taken back without a look at the others.
inline constexpr uint64_t kNotAskedYet = 1;  // the next call that is not basic finds out first
inline constexpr uint64_t kOneOfAThread = 1 << 1, kOneOfAll = uint64_t{1} << 32;
inline constexpr uint64_t kOfThreads = kOneOfAll - kOneOfAThread, kOfAll = ~(kOneOfAll - 1);

extern constinit std::atomic<uint64_t> state;
// The helper runs outside of a filter that a thread of the program has installed for itself.
extern constinit thread_local bool is_helper __attribute__((tls_model("initial-exec")));

bool is_limited_slow(uint64_t now);

}  // namespace sandbox

constexpr bool is_basic_call(long number) {
  return number == SYS_mmap || number == SYS_munmap || number == SYS_mremap || number == SYS_madvise || number == SYS_futex ||
         number == SYS_mprotect;
}

// Whether this thread may make no other calls than basic ones.
inline bool is_limited() {
  uint64_t now = sandbox::state.load(std::memory_order_relaxed);
  return SEEMALLOC_UNLIKELY(now != 0) && sandbox::is_limited_slow(now);
}

// The option `sandbox`: always limited, never limited, or by what is noticed (as at first).
void limit_calls();
void never_limit_calls();

// A filter is about to be installed, for the calling thread or for all: limits hold from now on, or until it was refused.
void expect_filter(bool for_all_threads);
void filter_was_refused(bool for_all_threads);

// What the helper looks at: it ends when all threads are limited. And what it says of itself at its start.
inline bool all_threads_are_limited() { return (sandbox::state.load(std::memory_order_acquire) & sandbox::kOfAll) != 0; }
inline void this_thread_is_the_helper() { sandbox::is_helper = true; }
inline bool is_helper_thread() { return sandbox::is_helper; }

// Before a thread is started: a filter may have been installed unseen, by a bare system call. Opens a file, unless a sandbox is known.
bool is_in_a_sandbox();

}  // namespace seemalloc::os

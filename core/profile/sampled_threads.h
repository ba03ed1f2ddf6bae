// Which thread a sample of the heap is of: a number, found once per thread and kept in its thread-local memory.
//
// It is one of ThreadNames', and so no other thread's ever, or, where all of those are taken, the kernel's id with kUnnamed set: by that, too, a thread knows
// what it allocated itself. A forked child's first thread goes on with the number that it had as a thread of the
// parent: what it allocated there is its own. Threads: any.
#pragma once

#include <cstdint>

#include "core/base/compiler.h"
#include "core/profile/thread_names.h"

namespace seemalloc::profile {

inline constexpr uint32_t kUnnamed = 1u << 31;

extern constinit thread_local uint32_t sampled_thread_cache __attribute__((tls_model("initial-exec")));
uint32_t find_sampled_thread();
inline uint32_t sampled_thread() {
  uint32_t number = sampled_thread_cache;
  return SEEMALLOC_LIKELY(number != 0) ? number : find_sampled_thread();
}
// Whether it is one of ThreadNames'. `thread` may be anything, read from a sample that is gone meanwhile.
inline bool has_number(uint32_t thread) { return (thread & kUnnamed) == 0 && ThreadNames::place_of(thread) - 1 < ThreadNames::kMost; }
// Of a sample's thread: whether it is the calling one. A thread that has no number has allocated no sample.
inline bool is_own_sample(uint32_t thread) { return thread == sampled_thread_cache; }

// What the kernel calls it, or did while it ran.
uint32_t thread_id_of(uint32_t thread);

// The calling thread will record no more samples.
void end_sampled_thread();
// The thread that called fork is the only one.
void renumber_threads_in_child();

}  // namespace seemalloc::profile

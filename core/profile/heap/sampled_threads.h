// The thread of a heap sample: a number, found once per thread and stored in its thread-local
// memory.
//
// The number is one from ThreadNames, which no other thread ever has. If all of those are taken, it
// is the kernel's thread id with kUnnamed set; that, too, lets a thread recognise its own
// allocations. The first thread of a forked child keeps the number that it had in the parent,
// because blocks allocated there are its own. Threads: any.
#pragma once

#include <cstdint>

#include "core/base/compiler.h"
#include "core/profile/sampling/thread_names.h"

namespace seemalloc::profile {

inline constexpr uint32_t kUnnamed = 1u << 31;

extern constinit thread_local uint32_t sampled_thread_cache
    __attribute__((tls_model("initial-exec")));
uint32_t find_sampled_thread();
inline uint32_t sampled_thread() {
  uint32_t number = sampled_thread_cache;
  return SEEMALLOC_LIKELY(number != 0) ? number : find_sampled_thread();
}
// Whether it is a number from ThreadNames. `thread` may have any value, since it may come from a
// sample that was freed meanwhile.
inline bool has_number(uint32_t thread) {
  return (thread & kUnnamed) == 0 && ThreadNames::place_of(thread) - 1 < ThreadNames::kMost;
}
// Whether a sample's thread is the calling one. A thread without a number has allocated no sample.
inline bool is_own_sample(uint32_t thread) { return thread == sampled_thread_cache; }

// The thread's kernel id, now or while it ran.
uint32_t thread_id_of(uint32_t thread);

// The calling thread will record no more samples.
void end_sampled_thread();
// In a forked child: the thread that called fork is the only one.
void renumber_threads_in_child();

}  // namespace seemalloc::profile

// The thread of a heap sample: a number, found once per thread and stored in its thread-local
// memory.
//
// The number is one from ThreadTable, which no other thread ever has. If all of those are taken, it
// is the kernel's thread id with kIsThreadId set; that, too, lets a thread recognise its own
// allocations. The first thread of a forked child keeps the number that it had in the parent,
// because blocks allocated there are its own. Threads: any.
#pragma once

#include <cstdint>

#include "core/base/compiler.h"
#include "core/profile/sampling/thread_table.h"

namespace seemalloc::profile {

inline constexpr uint32_t kIsThreadId = 1u << 31;

extern constinit thread_local uint32_t thread_number_cache
    __attribute__((tls_model("initial-exec")));
uint32_t assign_thread_number();
inline uint32_t current_thread_number() {
  uint32_t number = thread_number_cache;
  return SEEMALLOC_LIKELY(number != 0) ? number : assign_thread_number();
}
// Whether it is a number from ThreadTable. `thread` may have any value, since it may come from a
// sample that was freed meanwhile.
inline bool is_thread_number(uint32_t thread) {
  return (thread & kIsThreadId) == 0 && ThreadTable::slot_of(thread) - 1 < ThreadTable::kMaxThreads;
}
// Whether a sample's thread is the calling one. A thread without a number has allocated no sample.
inline bool is_calling_thread(uint32_t thread) { return thread == thread_number_cache; }

// The thread's kernel id, now or while it ran.
uint32_t kernel_thread_id(uint32_t thread);

// The calling thread will record no more samples.
void retire_thread_number();
// In a forked child: the thread that called fork is the only one.
void reset_thread_numbers_in_child();

}  // namespace seemalloc::profile

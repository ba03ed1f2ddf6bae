// Clocks, by the vDSO where it has them.
// Does not touch errno, allocate or lock. Threads: any, at any time, including signal handlers.
#pragma once

#include <cstdint>

namespace seemalloc::os {

uint64_t monotonic_ns();         // CLOCK_MONOTONIC
uint64_t coarse_monotonic_ns();  // CLOCK_MONOTONIC_COARSE, a few ns per call, resolution 1–4 ms
uint64_t realtime_ns();          // CLOCK_REALTIME
uint64_t thread_cpu_ns();        // CLOCK_THREAD_CPUTIME_ID: a system call
uint64_t process_cpu_ns();       // CLOCK_PROCESS_CPUTIME_ID, all threads: a system call

}  // namespace seemalloc::os

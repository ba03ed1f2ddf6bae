// What jemalloc's prof.reset has a reader forget: the samples until then. The tables keep them, for all other readers.
//
// Threads: any. Lock: its own, before those of the tables.
#pragma once

#include "core/profile/records.h"

namespace seemalloc::profile {

// From now on for_each_row_since() leaves out what has been sampled until now. False, and nothing is changed, when memory was refused.
bool forget_samples();
// When that was, on CLOCK_MONOTONIC; 0: never.
uint64_t forgotten_ns();

// The rows with what has been sampled since then only. Nothing is called when memory was refused.
void for_each_row_since(void (*f)(void* context, const BucketRow& row), void* context);

void lock_forgotten_for_fork();
void unlock_forgotten_after_fork();

}  // namespace seemalloc::profile

// Support for jemalloc's prof.reset, after which readers of jemalloc's interface ignore earlier
// samples. The tables keep these samples for all other readers.
//
// Threads: any. Lock: its own, taken before those of the tables.
#pragma once

#include "core/profile/heap/records.h"

namespace seemalloc::profile {

// From now on for_each_row_since_reset() omits the samples taken until now. Returns false and
// changes nothing if memory was refused.
bool reset_samples();
// The time of that call, on CLOCK_MONOTONIC; 0: never.
uint64_t samples_reset_ns();

// Calls f(context, row) for each row, with the samples taken since then only. Makes no call if
// memory was refused.
void for_each_row_since_reset(void (*f)(void* context, const BucketRow& row), void* context);

void lock_sample_reset_for_fork();
void unlock_sample_reset_after_fork();

}  // namespace seemalloc::profile

// The seam between heap and profiler: what the slow paths ask when a sample is due. Two implementations: profiled, and
// minimal (the library without a profiler, in which no sample ever is).
#pragma once

#include <cstddef>
#include <cstdint>

namespace seemalloc {

// Installs the drawing of sample points; before this nothing is sampled. Called once.
void start_sampling();

// Records an allocation made by the calling thread, with its stack. 0 when it could not be recorded (counted).
uint32_t record_sample(size_t requested_bytes, size_t allocated_bytes, uint64_t interval_bytes);
void forget_sample(uint32_t id);
void resize_sample(uint32_t id, size_t requested_bytes, size_t allocated_bytes);

void lock_sampling_for_fork();
void unlock_sampling_after_fork();

}  // namespace seemalloc

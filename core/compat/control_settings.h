// Maps our options to the settings of other allocators.
//
// Threads: any.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>

namespace seemalloc::compat {

// Set an option by name; false if the option does not accept the value.
bool set_option_to(const char* name, uint64_t value);
bool set_option_to(const char* name, const char* value);

// jemalloc's decay times: ms until free memory is purged; 0: at once, -1: never. Values below -1
// are refused.
ssize_t decay_ms();
bool set_decay_ms(ssize_t ms);

// gperftools' release rate: 0: never, 1: the default, higher: sooner.
double memory_release_rate();
void set_release_rate(double rate);

// Sampling as a switch and a logarithm. The interval from before it was switched off is remembered.
bool sampling_is_on();
bool enable_sampling(bool on);
size_t sample_interval_log2();
bool set_sample_interval_log2(size_t log2);

}  // namespace seemalloc::compat

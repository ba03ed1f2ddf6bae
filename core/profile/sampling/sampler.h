// The mathematics of sampling: when the next sample is due, and how many blocks one sample stands
// for.
//
// Sampling is a Poisson process over allocated bytes with mean interval R. Distances between sample
// points are exponential. A block of s bytes is sampled if a point falls into it, with probability
// 1-exp(-s/R), and then stands for 1/(1-exp(-s/R)) blocks. No libm: this library links nothing but
// libc.
#pragma once

#include <cstdint>

namespace seemalloc::profile {

// A small fast generator (xorshift or better), one per thread, seeded from os::random_bits(). State
// 0 seeds itself.
struct Random {
  uint64_t state = 0;
  uint64_t next();
};

// Bytes until the next sample point: exponential with mean `interval_bytes`, at least 1.
// interval 1 → always 1 (every allocation); interval 0 (sampling off) → INT64_MAX.
int64_t draw_distance_bytes(Random& random, uint64_t interval_bytes);

// 1/(1-exp(-bytes/interval)); 1.0 when interval is 1. Relative error < 1e-9.
double sample_weight(uint64_t bytes, uint64_t interval_bytes);

}  // namespace seemalloc::profile

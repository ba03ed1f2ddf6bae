// Memory pools: what programs with an arena of their own report of their blocks, by pool name and stack.
//
// Blocks are sampled like those of malloc (sampler.h): who draws the sample points is the caller (core/api/pools_profiled.cc). Sums
// are kept per name and stack, so memory is bounded by those and by the samples in use, not by how long a program runs or how
// many pools it makes: pools of one name share their sums, and records of destroyed ones are used again.
// Threads: any, off the fast path; never calls malloc. Locks: the pool list's, a table's shard, then the arena's; no two
// of the first at a time.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/profile/buffer.h"

namespace seemalloc::profile {

struct Pool;

inline constexpr size_t kMaxPoolNameBytes = 47;
// Pools of further names than these share one: "(other pools)".
inline constexpr size_t kMostPoolNames = 1024;

// Null when memory is refused. Longer names are cut.
Pool* create_pool(const char* name);
// With all of its blocks. Requires: nobody uses it any more.
void destroy_pool(Pool* pool);
// All of its blocks are gone, at once.
void reset_pool(Pool* pool);

// The block, which has been drawn as a sample, is recorded with the caller's stack. False, counted, when memory is refused.
bool record_pool_alloc(Pool* pool, uintptr_t block, uint64_t bytes, uint64_t interval_bytes, size_t max_depth);
// False: it is no sample of any pool. One load.
bool may_be_pool_sample(uintptr_t block);
// The block is gone. True when it was a sample of this pool.
bool record_pool_free(Pool* pool, uintptr_t block);

struct PoolTotals {
  uint64_t created, open;  // pools
  uint64_t samples, live_samples, dropped;
  uint64_t stacks;  // those of different names apart
  uint64_t truncated_samples, broken_samples;
  double inuse_bytes, inuse_bytes_stderr;
};
PoolTotals pool_totals();

// alloc_objects, alloc_space, inuse_objects, inuse_space with the label pool. False when memory was refused.
bool pool_profile_to_buffer(Buffer* out, uint64_t interval_bytes);

void lock_pools_for_fork();
void unlock_pools_after_fork();

}  // namespace seemalloc::profile

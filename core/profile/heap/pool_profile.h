// Memory pools: the blocks that programs with an arena of their own report, by pool name and stack.
//
// Blocks are sampled like those of malloc (sampler.h); the caller draws the sample points
// (core/api/sampling/pools_profiled.cc). Sums are stored per name and stack. So memory is bounded
// by these and by the live samples, and independent of how long a program runs and how many pools
// it creates: pools of one name share their sums, and records of destroyed pools are reused.
// Threads: any, off the fast path; never calls malloc. Lock order: the pool list's or the lock of a
// table's shard, then the arena's; a thread holds at most one of the former two.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/profile/pprof/buffer.h"

namespace seemalloc::profile {

struct Pool;

inline constexpr size_t kMaxPoolNameBytes = 47;
// Pools with further names share one name: "(other pools)".
inline constexpr size_t kMaxPoolNames = 1024;

// Returns null if memory is refused. Longer names are cut off.
Pool* create_pool(const char* name);
// Destroys a pool with all of its blocks. Requires: no thread uses it any more.
void destroy_pool(Pool* pool);
// Frees all blocks of the pool at once.
void reset_pool(Pool* pool);

// Records a block that was selected as a sample, with the caller's stack. Returns false and counts
// it as dropped if memory is refused.
bool record_pool_alloc(Pool* pool, uintptr_t block, uint64_t bytes, uint64_t interval_bytes,
                       size_t max_depth);
// Returns false if the block is not a sample of any pool. One load.
bool may_be_pool_sample(uintptr_t block);
// Records the free of the block. Returns true if it was a sample of this pool.
bool record_pool_free(Pool* pool, uintptr_t block);

struct PoolTotals {
  uint64_t created, open;  // pools
  uint64_t samples, live_samples, dropped;
  uint64_t stacks;  // the same stack counts once per pool name
  uint64_t truncated_samples, broken_samples;
  double inuse_bytes, inuse_bytes_stderr;
};
PoolTotals pool_totals();

// Value types: alloc_objects, alloc_space, inuse_objects, inuse_space; label: pool. Returns false
// if memory was refused.
bool pool_profile_to_buffer(Buffer* out, uint64_t interval_bytes);

void lock_pools_for_fork();
void unlock_pools_after_fork();

}  // namespace seemalloc::profile

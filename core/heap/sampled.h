// Blocks that the sampler records live in spans of their own, so that free() tells them by the span's owner (nobody) at
// no cost to all others. Each block has two numbers beside it: the sampler's handle, and the span that it would be in (homes.h).
// Neighbouring classes share their spans, and threads do until they sample so often that they would meet at the locks.
//
// Who calls: core/api's sample path and slow free. Threads: any; one lock per size class and part.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/heap/homes.h"
#include "core/pages/span.h"

namespace seemalloc::heap {

using pages::Span;

// Threads of different parts do not meet at a lock, as long as they free their own blocks.
inline constexpr unsigned kSampledParts = 4;
// A block of the class; null when out of memory. Its handle, 0 at first, is at *id; whoever has the block may set it. The block, or
// the failure, leaves the home that the caller has entered for it.
void* allocate_sampled(unsigned part, unsigned size_class, HomeId home, uint32_t** id);
uint32_t sample_id(const Span* span, const void* block);
// The size of the class that it was allocated as. Fatal where no block starts. Requires: the block is live.
size_t sampled_block_bytes(const Span* span, const void* block);
// Live blocks that were allocated as this class. Exact while nobody allocates or frees.
uint32_t sampled_blocks(unsigned size_class);
// Returns the handle. `*valid` is false, and nothing happens, when `block` is not a live block of the span.
uint32_t free_sampled(Span* span, void* block, bool* valid);

struct SampledBlock {
  const void* block;
  uint32_t id;
  HomeId home;
  double share_bytes;  // free bytes of its span, for each live block
};
// Calls f for each live block, under its class's lock, which is let go between two spans: while others allocate and free, blocks
// may be seen twice or not at all.
void for_each_sampled_block(void (*f)(void* context, const SampledBlock& block), void* context);

void lock_sampled_for_fork();
void unlock_sampled_after_fork();

}  // namespace seemalloc::heap

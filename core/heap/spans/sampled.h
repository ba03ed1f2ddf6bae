// Sampled blocks: blocks that the sampler records are in spans of their own. free() recognises them
// by the span's owner (none), at no cost to other blocks. Each block has two numbers beside it: its
// sample id, and the span that it would be in (homes.h).
// Neighbouring classes share their spans. Threads share spans too, until they sample so often that
// they would contend for the locks.
//
// Callers: core/api's sample path and slow free. Threads: any; one lock per size class and part.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/heap/spans/homes.h"
#include "core/pages/span/span.h"

namespace seemalloc::heap {

using pages::Span;

// Threads of different parts do not contend for a lock, as long as they free their own blocks.
inline constexpr unsigned kSampledShards = 4;
// Allocates a block of the class; null when out of memory. *id points to its sample id, 0 at first,
// which the block's holder may set. The block, or a failure, leaves the home that the caller has
// entered for it.
void* allocate_sampled(unsigned part, unsigned size_class, HomeId home, uint32_t** id);
uint32_t sample_id(const Span* span, const void* block);
// The block size of the class that it was allocated as. Fatal if no block starts there. Requires:
// the block is live.
size_t sampled_block_bytes(const Span* span, const void* block);
// Number of live blocks that were allocated as this class. Exact while no other thread allocates or
// frees.
uint32_t sampled_blocks(unsigned size_class);
// Frees the block and returns its sample id. If `block` is not a live block of the span, sets
// *valid to false and does nothing.
uint32_t free_sampled(Span* span, void* block, bool* valid);

struct SampledBlock {
  const void* block;
  uint32_t id;
  HomeId home;
  double charge_bytes;  // free bytes of its span, per live block
};
// Calls f for each live block, under its class's lock, which is released between two spans. While
// other threads allocate and free, blocks may be seen twice or not at all.
void for_each_sampled_block(void (*f)(void* context, const SampledBlock& block), void* context);

void lock_sampled_for_fork();
void unlock_sampled_after_fork();
// For verify.h: the broken invariant, or null.
const char* verify_sampled(const char* (*verify_span)(const Span& span));

}  // namespace seemalloc::heap

// Batches of remote frees. A batch holds free blocks of one span on their way back to
// the owner, as offsets instead of as a linked list.
//
// Blocks that another thread has freed are in that processor's cache. An owner that followed links
// through them would take one cache miss after the other. A batch is stored in one of its blocks
// and names the others, so the owner can prefetch all of them at once. A batch is at most one cache
// line; further blocks go into further batches, which form a chain.
// Caller: remote.cc, which hands chains over through Span::remote. Threads: the thread that holds
// the blocks.
// The program may have written to blocks that it has freed, so everything read back from a batch is
// checked.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/heap/thread/size_class.h"
#include "core/pages/span/span.h"

namespace seemalloc::heap {

using pages::Span;

// A null-terminated list.
struct BlockList {
  Block* first;
  Block* last;
};

inline constexpr uint32_t kMaxBatchBlocks = kCacheLineBytes / sizeof(uint16_t) - 1;

// Writes `count` ≥ 1 blocks of the span as a chain of batches. The first batch is stored in
// blocks[0]. Returns the block that holds the last batch; the caller must still set its `next`.
Block* write_batches(const Span* span, Block* const* blocks, uint32_t count);
// Links `batch` to `next`: the block that holds another batch of the same span, or null.
void set_next_batch(const Span* span, Block* batch, const Block* next);
// Reads the blocks of the batch, its own block first. *next becomes the block that holds the next
// batch, or null. Returns the number of blocks, or 0 if the program has overwritten the batch.
uint32_t read_batch(const Span* span, const Block* batch, Block** blocks, Block** next);
// Makes one list of the `count` blocks of a chain of batches. Fatal if the chain has another number
// of blocks, or has a block twice.
BlockList unpack_batches(const Span* span, Block* batch, uint32_t count);

// Links blocks of any spans in the given order. Fatal if a block is there twice.
BlockList link_blocks(Block* const* blocks, uint32_t count);

// Span::remote: 0, kUnowned, or a chain of batches and the number of its blocks (remote.h).
inline constexpr uint64_t kUnowned = 1;

inline uint64_t pack_remote(const Block* first, uint32_t count) {
  return reinterpret_cast<uint64_t>(first) << 16 | count;
}
inline Block* remote_first(uint64_t word) { return reinterpret_cast<Block*>(word >> 16); }
inline uint32_t remote_count(uint64_t word) {
  return word == kUnowned ? 0 : static_cast<uint32_t>(word & 0xffff);
}

}  // namespace seemalloc::heap

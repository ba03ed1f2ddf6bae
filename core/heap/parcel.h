// Parcels: blocks of one span on their way back to its owner, by their addresses instead of as a list.
//
// The lines of blocks that another thread has freed lie in another processor's cache. An owner that followed links through
// them would wait for one after the other; a parcel stands in one of its blocks and names the others, so that the owner
// asks for all of them at once. A parcel is at most a cache line; the blocks that do not fit stand in further ones.
// Who calls: remote.cc, which hands them over by Span::remote. Threads: whoever holds the blocks.
// The program may have written to blocks it has freed: what is read back is checked.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/heap/size_class.h"
#include "core/pages/span.h"

namespace seemalloc::heap {

using pages::Span;

// A null-terminated list.
struct BlockList {
  Block* first;
  Block* last;
};

inline constexpr uint32_t kMaxParcelBlocks = kCacheLineBytes / sizeof(uint16_t) - 1;

// Writes `count` ≥ 1 blocks of the span as parcels, the first of which stands in blocks[0]. Returns where the last one
// stands: its next is still to be set.
Block* write_parcels(const Span* span, Block* const* blocks, uint32_t count);
// `next` is where a parcel of the same span stands, or null.
void set_next_parcel(const Span* span, Block* parcel, const Block* next);
// The blocks of the parcel, itself first; *next is where the next one stands. Returns their number, 0 when the parcel has
// been written to.
uint32_t read_parcel(const Span* span, const Block* parcel, Block** blocks, Block** next);
// Makes one list of the `count` blocks of a chain of parcels. Fatal when they are others, or one of them twice.
BlockList open_parcels(const Span* span, Block* parcel, uint32_t count);

// Links blocks of any spans in this order. Fatal when one of them is there twice.
BlockList link_blocks(Block* const* blocks, uint32_t count);

}  // namespace seemalloc::heap

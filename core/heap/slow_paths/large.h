// Large blocks: one block per span, in whole pages. Up to 1 MiB they are inside a region; above
// that they have a mapping of their own.
//
// Callers: core/api's slow paths. Threads: any.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/pages/span/span.h"

namespace seemalloc::heap {

using pages::Span;

// Returns a published span of at least `bytes` whose start is aligned to `alignment` (a power of
// two); null when out of memory. known_zero tells whether the memory reads as zero.
Span* allocate_large(unsigned shard, size_t bytes, size_t alignment);
// Requires: kind kLarge or kHuge, and no other free of the span (the page map shows a freed span as
// such).
void free_large(Span* span);
// Resizes the block to `bytes` without copying: in place, or for huge blocks by moving page tables.
// Returns false if it would take a copy. The block's address is span->start afterwards.
bool resize_large(Span* span, size_t bytes);
// Bytes by which all blocks have grown that way since the start, less those by which they have
// shrunk.
int64_t net_resized_bytes();

// Bytes that a large request takes.
size_t large_bytes(size_t bytes);

}  // namespace seemalloc::heap

// Large blocks: one block per span, whole pages, inside a region up to 1 MiB and with a mapping of its own above.
//
// Who calls: core/api's slow paths. Threads: any.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/pages/span.h"

namespace seemalloc::heap {

using pages::Span;

// A published span of at least `bytes`, its start aligned to `alignment` (a power of two); null when out of memory.
// known_zero tells whether the memory reads as zero.
Span* allocate_large(unsigned shard, size_t bytes, size_t alignment);
// Requires: kind kLarge or kHuge, and no other free of it (the page map shows a freed span as such).
void free_large(Span* span);
// Makes the block `bytes` long without copying: in place, or for huge blocks by moving page tables. False when it would
// take a copy. The block's address is span->start afterwards.
bool resize_large(Span* span, size_t bytes);
// Bytes by which all of them have grown that way since the start, less those by which they have shrunk.
int64_t resized_bytes();

// Bytes a large request really takes.
size_t large_bytes(size_t bytes);

}  // namespace seemalloc::heap

// Zeroes used memory for a large calloc. It writes zeros, or purges the pages, which read as zero
// when the program touches them again.
//
// Writing makes the whole block resident, with a fault for each page that is not. Purging costs a
// call, and a fault for each page that was resident and is touched again, by the next user of the
// memory. So the code checks how much is resident. Memory of blocks that were hardly touched
// (nearly empty tables, buffers made for the worst case) is purged and stays non-resident; other
// memory is written. But memory that another user filled once would then be written each time from
// then on. So where few blocks are filled, filled memory is purged as well, elsewhere rarely.
// Figures: docs/decisions/0058.
//
// Caller: the slow path of calloc. Threads: the owner of the heap.
#pragma once

#include "core/pages/span/span.h"

namespace seemalloc::heap {

struct ThreadHeap;

// Zeroes a large block, its whole usable size. The calling thread has `heap` (or none, null) and
// has just been given the block.
void zero_large_block(ThreadHeap* heap, pages::Span* span);

}  // namespace seemalloc::heap

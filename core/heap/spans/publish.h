// Publish: sends blocks back to the spans that they belong to, whose owner is another heap or none.
// The protocol is that of remote.h; this is the part that needs no thread of its own.
//
// Threads: any, with no lock held.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/heap/thread/thread_heap.h"
#include "core/pages/span/span.h"

namespace seemalloc::heap {

// Publishes `count` ≤ kMaxGatheredBlocks blocks of one span. `heap` is the calling thread's, or
// null. Returns true if the span had no owner: pages may have been released, and the caller ticks
// (housekeeping.h).
bool publish_remote(ThreadHeap* heap, Span* span, Block* const* blocks, uint32_t count);
// The same for blocks of any spans; overwrites the array.
bool publish_blocks(ThreadHeap* heap, Block** blocks, uint32_t count);
// Publishes the batches of the central lists that were not needed since the last call, or all of
// them.
void publish_central_lists(bool all);
// Releases spans of sleeping owners whose live blocks have all been freed remotely, however few
// there are.
void reclaim_for_sleeping_owners();
// The heap's thread is ending or gone: publishes the blocks of other spans in its thread free
// lists, and all gathered blocks.
void publish_gathered_lists(ThreadHeap& heap);

}  // namespace seemalloc::heap

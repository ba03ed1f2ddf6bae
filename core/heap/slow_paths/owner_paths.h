// Owner paths: what a thread does to its own heap when a free list or a countdown ends.
//
// Callers: the fast paths and slow paths of core/api. Threads: the owner of the heap, with no lock
// held.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/base/compiler.h"
#include "core/heap/spans/current_span_protocol.h"
#include "core/heap/thread/thread_cache.h"
#include "core/heap/thread/thread_heap.h"
#include "core/pages/span/span.h"

namespace seemalloc::heap {

// The outcome of refill: one block; or the caller's allocation is the sample (drawn_interval and
// sample_home describe it); or no memory.
enum class Refill { kBlock, kSample, kNoMemory };

// The thread free list of `size_class` is empty: takes a block for the caller and puts the next
// list into the thread cache. (If the outcome is a sample, the list that follows it may have been
// put there too.)
// If may_sample is false, a sample that is due is not recorded (there is no memory for it).
// Requires: the calling thread owns `heap`.
Refill refill(ThreadHeap& heap, unsigned size_class, Block** block, bool may_sample = true);

// The thread free list is empty, but blocks of its span have been freed since the thread got it:
// they become the next list. Takes no lock and does only a few loads and stores, because a class of
// large blocks comes here with every malloc.
// Returns null if refill has to decide. Requires: the calling thread owns `heap`.
SEEMALLOC_ALWAYS_INLINE Block* refill_from_local_frees(ThreadHeap& heap, size_t size_class) {
  return take_local_frees(heap, thread_cache, size_class);
}

// Handles the case that the current span is used up and another span has freed blocks: the short
// form of refill. Returns null if refill has to decide. Requires: the calling thread owns `heap`,
// and refill_from_local_frees has just returned null.
Block* refill_from_available_span(ThreadHeap& heap, size_t size_class);

// The countdown of a span that this heap owns has reached zero: moves the span to the available
// list, or releases it if it is empty.
void span_countdown_slow(ThreadHeap& heap, Span* span) noexcept;

// Gives half of the spans that were not needed since the last call to the central lists or the page
// heap; more while all heaps together exceed the budget.
// Requires: the calling thread owns `heap`.
void collect(ThreadHeap& heap, bool everything);

}  // namespace seemalloc::heap

// Owner paths: what a thread does to its own heap when a free list or a countdown ends.
//
// Callers: the fast paths and slow paths of core/api. Threads: the owner of the heap, with no lock
// held.
#pragma once

#include <arch_words.h>

#include <cstddef>
#include <cstdint>

#include "core/base/compiler.h"
#include "core/heap/thread/thread_cache.h"
#include "core/heap/thread/thread_heap.h"
#include "core/pages/span/span.h"

namespace seemalloc::heap {

// Checks the first two blocks of a free list before they are followed. This finds what a stray
// write or an invalid free has left at the front. Checking every link would cost a cache miss per
// block (docs/decisions/0001).
SEEMALLOC_ALWAYS_INLINE bool first_links_are_sound(const Span* span, const Block* first) {
  if (!span->is_carved_block(first)) return false;
  const Block* second = first->next;
  // Makes the compiler load again: cheaper than saving registers.
  __asm__ volatile("" ::: "memory");
  return second == nullptr || span->is_carved_block(second);
}

// The outcome of refill: one block; or the caller's allocation is the sample (drawn_interval and
// sample_home describe it); or no memory.
enum class Refill { kBlock, kSample, kNoMemory };

// The thread free list of `size_class` is empty: takes a block for the caller and puts the next
// list into the thread cache. (If the outcome is a sample, the list that follows it may have been
// put there too.)
// If may_sample is false, a sample that is due is not recorded (there is no memory for it).
// Requires: the calling thread owns `heap`.
Refill refill(ThreadHeap& heap, unsigned size_class, Block** block, bool may_sample = true);

// The thread free list is empty, but blocks of its span have been freed since it was handed over:
// they become the next list. Takes no lock and does only a few loads and stores, because a class of
// large blocks comes here with every malloc.
// Returns null if refill has to decide. Requires: the calling thread owns `heap`.
SEEMALLOC_ALWAYS_INLINE Block* refill_from_local_frees(ThreadHeap& heap, size_t size_class) {
  // Loaded after the end of the list has been seen (current_spans.h).
  Span* span = racy_load(heap.body->local_refill_spans[size_class]);
  if (span == nullptr) return nullptr;
  Block* first = span->local_free;
  if (first == nullptr || !first_links_are_sound(span, first)) return nullptr;
  // Refill sets it anew.
  if (decrement_below_zero(heap.body->local_refills_left[size_class])) return nullptr;
  uint64_t clock =
      heap.allocated_bytes + uint64_t{span->free_blocks_of_current()} * span->block_bytes;
  if (clock >= heap.sample_at) {
    heap.body->local_refills_left[size_class]++;  // no list is handed out
    return nullptr;
  }
  heap.allocated_bytes = clock;
  racy_store(span->local_free, static_cast<Block*>(nullptr));
  span->set_all_live();
  // A thread that sees this list also sees the span without it (current_spans.h).
  store_last(thread_cache.heads[size_class], first->next);
  return first;
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

// Owned spans: moves the spans of a thread heap between its lists as their blocks are allocated and
// freed.
//
// Callers: the owner, and threads that act for it. Threads: under the heap's slow_lock, except
// where noted.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/base/check.h"
#include "core/heap/spans/remote_batch.h"
#include "core/heap/thread/thread_heap.h"
#include "core/pages/span/span.h"

namespace seemalloc::heap {

// Puts a span that this heap has just got on the available or the full list, depending on whether
// it has free blocks.
void add_owned_span_locked(ThreadHeap& heap, Span* span);
// Returns `count` freed blocks to a span of this heap.
void return_blocks_locked(ThreadHeap& heap, Span* span, BlockList list, uint32_t count);
// Takes over all blocks that other threads have freed to this heap.
void drain_pending_locked(ThreadHeap& heap);
// The heap's thread is gone: releases its spans, to the central lists, or to the page heap if they
// are empty. A span with a remote free under way stays.
void release_spans_locked(ThreadHeap& heap);
// A remote free has found that the owner's thread is gone: releases the spans that it left behind.
// Requires: no lock held.
void drain_zombie(ThreadHeap& heap);
// The countdown of this heap's span has reached zero. Returns true if pages were released.
bool span_countdown_locked(ThreadHeap& heap, Span* span);

// Number of frees after which a full span becomes available: the next refill then gets many blocks
// instead of one.
inline uint32_t full_threshold(const Span* span) {
  return span->capacity < 32 ? 1 : span->capacity / 8;
}

// The span has no free blocks: puts it on the full list.
inline void add_to_full(ClassState& cs, Span* span) {
  DCHECK(span->kind == pages::SpanKind::kSmall &&
         span->remote.load(std::memory_order_relaxed) != kUnowned);
  DCHECK(span->carved == span->capacity && span->holes == 0);
  uint32_t live = span->live();
  uint32_t threshold = full_threshold(span);
  DCHECK(threshold != 0 && live >= threshold);
  span->set_countdown(threshold, live - threshold);
  span->state = pages::SpanState::kFull;
  cs.full.push_front(span);
}

// Makes an available span the current one. The caller sets cs.current.
inline void make_current(ClassState& cs, Span* span) {
  DCHECK(span->remote.load(std::memory_order_relaxed) != kUnowned);
  remove_available(cs, span);
  span->state = pages::SpanState::kCurrent;
  span->hole_scan.min_free_blocks = 0;
}

}  // namespace seemalloc::heap

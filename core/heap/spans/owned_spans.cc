#include "core/heap/spans/owned_spans.h"

#include <arch_words.h>

#include "core/heap/spans/central.h"
#include "core/heap/spans/remote_protocol.h"
#include "core/heap/spans/small_span.h"
#include "core/heap/spans/span_holes.h"

namespace seemalloc::heap {

using pages::SpanKind;
using pages::SpanState;

namespace {

void add_to_available(ClassState& cs, Span* span, uint32_t live) {
  DCHECK(span->kind == SpanKind::kSmall && span->state != SpanState::kDetached);
  // At the back: the longer a span waits, the more blocks its next list has (docs/decisions/0004).
  span->state = SpanState::kAvailable;
  span->hole_scan.since = hole_epoch.load(std::memory_order_relaxed);
  span->set_live(live);
  cs.available.push_back(span);
}

// A span on the available list has no live block left. One per class is kept, because the next
// refill would need it again.
bool release_or_keep_empty(ClassState& cs, Span* span) {
  DCHECK(span->state == SpanState::kAvailable && span->is_empty());
  if (cs.available.size() <= 1) return false;
  remove_available(cs, span);
  release_empty_span(span);
  return true;
}

void full_to_available(ClassState& cs, Span* span, uint32_t live) {
  DCHECK(span->state == SpanState::kFull);
  cs.full.remove(span);
  add_to_available(cs, span, live);
}

}  // namespace

bool span_countdown_locked(ThreadHeap& heap, Span* span) {
  DCHECK(heap.slow_lock.is_held());
  // Between the free and the lock, a remote free may have found the span empty and released it
  // (remote.h, rule 6).
  if (span->owner() != &heap) return false;
  ClassState& cs = heap.body->classes[span->size_class];
  // The purger that has detached the span checks it when it reattaches it.
  if (span->state == SpanState::kCurrent || span->state == SpanState::kDetached) return false;
  if (span->state == SpanState::kFull) full_to_available(cs, span, span->live());
  return span->is_empty() && release_or_keep_empty(cs, span);
}

void add_owned_span_locked(ThreadHeap& heap, Span* span) {
  DCHECK(heap.slow_lock.is_held());
  DCHECK(span->owner() == &heap && span->prev == nullptr && span->next == nullptr);
  ClassState& cs = heap.body->classes[span->size_class];
  if (span->free_blocks() == 0 && span->carved == span->capacity && span->holes == 0) {
    add_to_full(cs, span);
  } else {
    add_to_available(cs, span, span->live());
  }
}

void return_blocks_locked(ThreadHeap& heap, Span* span, BlockList list, uint32_t count) {
  DCHECK(heap.slow_lock.is_held());
  DCHECK(count != 0 && span->contains(list.first) && span->contains(list.last));
  DCHECK(span->owner() == &heap && span->kind == SpanKind::kSmall);
  // double free by different threads.
  if (count > span->live() - span->hole_blocks()) fatal("double free", list.first);
  list.last->next = span->local_free;
  span->local_free = list.first;
  ClassState& cs = heap.body->classes[span->size_class];
  uint32_t live = span->live() - count;
  if (span->state == SpanState::kCurrent) {
    span->set_live_without_countdown(live);
  } else if (span->state == SpanState::kAvailable) {
    span->set_live(live);
  } else if (span->state == SpanState::kFull && span->capacity - live >= full_threshold(span)) {
    full_to_available(cs, span, live);
  } else {
    span->set_countdown(span->countdown - count, span->bias);
  }
  if (span->is_empty() && span->state == SpanState::kAvailable) release_or_keep_empty(cs, span);
}

void drain_pending_locked(ThreadHeap& heap) {
  DCHECK(heap.slow_lock.is_held());
  // Takes all chains first: each locked instruction would wait for earlier writes to the blocks.
  constexpr uint32_t kAtOnce = 16;
  struct {
    Span* span;
    uint64_t word;
  } taken[kAtOnce];
  uint32_t count = 0;
  auto return_taken = [&] {
    for (uint32_t i = 0; i < count; i++) {
      uint32_t blocks = remote_count(taken[i].word);
      return_blocks_locked(heap, taken[i].span,
                           unpack_batches(taken[i].span, remote_first(taken[i].word), blocks),
                           blocks);
    }
    count = 0;
  };
  take_pending_chains(heap, [&](Span* span, uint64_t word) {
    DCHECK(word != kUnowned && remote_count(word) != 0 && remote_first(word) != nullptr);
    DCHECK(span->owner() == &heap);
    prefetch_for_write(remote_first(word));
    taken[count++] = {span, word};
    if (count == kAtOnce) return_taken();
  });
  return_taken();
}

namespace {
void release_list_locked(SpanList& list) {
  for (Span* span = list.front(); span != nullptr;) {
    Span* next = span->next;
    list.remove(span);
    if (span->is_empty()) {
      release_empty_span(span);
    } else if (!central_put(span)) {
      list.push_front(span);
    }
    span = next;
  }
}
}  // namespace

void release_spans_locked(ThreadHeap& heap) {
  DCHECK(heap.slow_lock.is_held());
  drain_pending_locked(heap);
  for (ClassState& cs : heap.body->classes) {
    release_list_locked(cs.available);
    release_list_locked(cs.full);
    cs.low_water = 0;
    cs.last_use_hash = 0;
    cs.shared_lists_taken = 0;
  }
}

void drain_zombie(ThreadHeap& heap) {
  LockGuard guard(registry_lock());
  // The heap has a new thread, which processes its pending spans.
  if (!is_zombie(heap)) return;
  LockGuard slow(heap.slow_lock);
  release_spans_locked(heap);
}

}  // namespace seemalloc::heap

#include "core/pages/span_pool.h"

#include "core/os/arena.h"
#include "core/os/lock.h"

namespace seemalloc::pages {

namespace {
Lock lock;
// Linked through `next`: `remote` and `owner_` of a record in the pool keep values that lead nowhere.
Span* free_spans = nullptr;
}  // namespace

Span* take_span(SpanKind kind) {
  Span* span;
  {
    LockGuard guard(lock);
    span = free_spans;
    if (span != nullptr) free_spans = span->next;
  }
  if (span == nullptr) span = static_cast<Span*>(os::arena_allocate(sizeof(Span), alignof(Span)));
  if (span == nullptr) return nullptr;
  span->free_list = nullptr;
  span->disown();
  span->forget_holes();
  span->set_live(0);
  span->block_bytes = span->capacity = span->carved = 0;
  span->size_class = 0;
  span->kind = kind;
  span->state = SpanState::kFull;
  span->known_zero = span->known_dense = span->given_back = false;
  span->set_lending(false);
  span->set_home(0);
  span->remote.store(0, std::memory_order_relaxed);
  span->pending_next = span->next = span->prev = nullptr;
  span->region = nullptr;
  span->sample_ids = nullptr;
  return span;
}

void give_span(Span* span) {
  span->kind = SpanKind::kFree;
  span->disown();
  LockGuard guard(lock);
  span->next = free_spans;
  free_spans = span;
}

void lock_span_pool_for_fork() { lock.lock_for_fork(); }
void unlock_span_pool_after_fork() { lock.unlock_after_fork(); }

}  // namespace seemalloc::pages

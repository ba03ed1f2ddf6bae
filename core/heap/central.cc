#include "core/heap/central.h"

#include <atomic>

#include "core/base/check.h"
#include "core/heap/remote.h"
#include "core/heap/size_class.h"
#include "core/heap/thread_heap.h"
#include "core/os/lock.h"
#include "core/pages/page_heap.h"

namespace seemalloc::heap {

using pages::SpanKind;
using pages::SpanList;
using pages::SpanState;

namespace {

struct alignas(kCacheLineBytes) CentralClass {
  Lock lock;
  std::atomic<bool> any;  // something is available: a hint that may be read without the lock
  SpanList available;

  void add(Span* span) {
    available.push_front(span);
    any.store(true, std::memory_order_relaxed);
  }
  void remove(Span* span) {
    available.remove(span);
    any.store(available.size() != 0, std::memory_order_relaxed);
  }
};
constinit CentralClass central[kClassCount];

bool has_free(const Span* span) { return span->free_blocks() != 0 || span->carved < span->capacity; }

void file_locked(CentralClass& list, Span* span) {
  span->state = has_free(span) ? SpanState::kAvailable : SpanState::kFull;
  if (span->state == SpanState::kAvailable) list.add(span);
}

}  // namespace

bool central_put(Span* span) {
  CentralClass& list = central[span->size_class];
  LockGuard guard(list.lock);
  uint64_t nothing = 0;
  if (!span->remote.compare_exchange_strong(nothing, kUnowned, std::memory_order_acq_rel, std::memory_order_relaxed)) {
    return false;
  }
  span->disown();
  span->set_live(span->live());
  file_locked(list, span);
  return true;
}

Span* central_take(unsigned size_class, const void* owner) {
  CentralClass& list = central[size_class];
  if (!list.any.load(std::memory_order_relaxed)) return nullptr;  // a miss costs a new span
  LockGuard guard(list.lock);
  Span* span = list.available.front();
  if (span == nullptr) return nullptr;
  list.remove(span);
  span->set_owner(owner);
  span->remote.store(0, std::memory_order_release);
  return span;
}

bool central_claim(Span* span, const void* owner) {
  CentralClass& list = central[span->size_class];
  LockGuard guard(list.lock);
  if (span->remote.load(std::memory_order_relaxed) != kUnowned) return false;
  if (span->state == SpanState::kAvailable) list.remove(span);
  span->set_owner(owner);
  span->remote.store(0, std::memory_order_release);
  return true;
}

bool central_free(Span* span, Block* first, Block* last, uint32_t count) {
  CentralClass& list = central[span->size_class];
  list.lock.lock();
  if (span->remote.load(std::memory_order_relaxed) != kUnowned) {
    list.lock.unlock();
    return false;
  }
  last->next = span->free_list;
  span->free_list = first;
  span->set_live(span->live() - count);
  if (span->live() == 0) {
    if (span->state == SpanState::kAvailable) list.remove(span);
    span->remote.store(0, std::memory_order_relaxed);
  } else if (span->state == SpanState::kFull) {
    file_locked(list, span);
  }
  bool empty = span->live() == 0;
  list.lock.unlock();
  if (empty) {
    pages::release(span);
    tick();
  }
  return true;
}

Block* central_allocate(unsigned size_class) {
  CentralClass& list = central[size_class];
  LockGuard guard(list.lock);
  Span* span = list.available.front();
  if (span == nullptr) {
    span = new_small_span(0, size_class, 0, SpanKind::kSmall);
    if (span == nullptr) return nullptr;
    span->remote.store(kUnowned, std::memory_order_release);
    pages::publish(span);
    file_locked(list, span);
  }
  if (span->free_list == nullptr) carve(span, &span->free_list);
  Block* block = span->free_list;
  span->free_list = block->next;
  span->set_live(span->live() + 1);
  if (!has_free(span)) {
    list.remove(span);
    span->state = SpanState::kFull;
  }
  return block;
}

void lock_central_for_fork() {
  for (CentralClass& list : central) list.lock.lock_for_fork();
}

void unlock_central_after_fork() {
  for (CentralClass& list : central) list.lock.unlock_after_fork();
}

}  // namespace seemalloc::heap

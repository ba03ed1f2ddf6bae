#include "core/heap/remote.h"

#include "core/base/check.h"
#include "core/heap/central.h"
#include "core/pages/page_heap.h"
#include "core/pages/page_map.h"

namespace seemalloc::heap {

using pages::SpanState;

namespace {

// A sleeper's pending spans are looked at once this many have gathered, and then when twice as many as had to stay: each
// look is paid for by the pushes.
constexpr uint32_t kPendingBeforeReclaim = 32;
// More blocks, or bytes, of a class than this are published: what sleeping threads keep is out of everybody's reach.
constexpr uint32_t kMaxForeignBlocks = 16;
constexpr size_t kMaxForeignClassBytes = 16 * KiB;
constexpr size_t kMaxForeignBytes = 64 * KiB;  // of all classes together

void push_pending(ThreadHeap& owner, Span* span) {
  Span* top = owner.pending.load(std::memory_order_relaxed);
  do {
    span->pending_next = top;
  } while (!owner.pending.compare_exchange_weak(top, span, std::memory_order_seq_cst, std::memory_order_relaxed));
  owner.pending_count.fetch_add(1, std::memory_order_relaxed);
}

// Rule 6: gives back the spans of a sleeping owner that nobody but we can reach.
void reclaim_for_sleeper(ThreadHeap& owner) {
  if (!owner.slow_lock.try_lock()) return;
  Span* span = owner.pending.exchange(nullptr, std::memory_order_seq_cst);
  owner.pending_count.store(0, std::memory_order_relaxed);
  uint32_t stayed = 0;
  while (span != nullptr) {
    Span* next = span->pending_next;
    uint64_t word = span->remote.load(std::memory_order_acquire);
    if (span->state != SpanState::kCurrent && remote_count(word) == span->live_acquire()) {
      ClassState& cs = owner.body->classes[span->size_class];
      (span->state == SpanState::kFull ? cs.full : cs.available).remove(span);
      if (cs.available.size() < cs.low_water) cs.low_water = cs.available.size();
      span->remote.store(0, std::memory_order_relaxed);
      span->set_live(0);
      retire(span);
    } else {
      push_pending(owner, span);
      stayed++;
    }
    span = next;
  }
  owner.reclaim_at.store(2 * stayed < kPendingBeforeReclaim ? kPendingBeforeReclaim : 2 * stayed, std::memory_order_relaxed);
  owner.slow_lock.unlock();
}

// Rule 5: the blocks' span belongs to nobody, so it becomes this heap's, and its further frees here are local ones.
bool claim(ThreadHeap& heap, Span* span, Block* first, uint32_t count) {
  LockGuard guard(heap.slow_lock);
  if (!central_claim(span, &heap)) return false;
  file_owned_locked(heap, span);
  return_blocks_locked(heap, span, first, count);
  return true;
}

}  // namespace

void publish_remote(ThreadHeap* heap, Span* span, Block* first, Block* last, uint32_t count) {
  uint64_t word = span->remote.load(std::memory_order_relaxed);
  uint64_t longer = 0;
  for (;;) {
    if (word == kUnowned) {
      last->next = nullptr;  // a failed exchange may have linked it to what was there before
      bool ours = heap != nullptr && !span->lending;
      if (ours ? claim(*heap, span, first, count) : central_free(span, first, last, count)) {
        if (!ours) tick();
        return;
      }
      word = span->remote.load(std::memory_order_relaxed);
      continue;
    }
    if (remote_first(word) == first) fatal("double free", first);
    last->next = remote_first(word);
    longer = pack_remote(first, remote_count(word) + count);
    if (span->remote.compare_exchange_weak(word, longer, std::memory_order_acq_rel, std::memory_order_relaxed)) break;
  }
  // Compared only: once published the span may be given back and its record be another's.
  bool all_remote = remote_count(longer) == span->live_acquire();
  const void* owner_word = span->owner_acquire();
  if (reinterpret_cast<uintptr_t>(owner_word) == Span::kNobody) {
    // Given back meanwhile; or, with an empty list, never handed out: these blocks were freed before.
    if (word == 0) fatal("double free", first);
    return;
  }
  ThreadHeap& owner = *static_cast<ThreadHeap*>(const_cast<void*>(owner_word));
  if (word == 0) {
    push_pending(owner, span);
    if (owner.state.load(std::memory_order_seq_cst) == HeapState::kZombie) hand_on_zombie(owner);
  }
  if (all_remote && owner.pending_count.load(std::memory_order_relaxed) >= owner.reclaim_at.load(std::memory_order_relaxed)) {
    reclaim_for_sleeper(owner);
  }
}

void reclaim_for_sleepers() {
  for (ThreadHeap* heap = all_heaps(); heap != nullptr; heap = heap->next_all) {
    if (heap != thread_cache.heap && heap->pending_count.load(std::memory_order_relaxed) != 0) reclaim_for_sleeper(*heap);
  }
}

void check_foreign(const Block* first, uint32_t count, unsigned size_class) {
  const Block* block = first;
  for (; block != nullptr && count != 0; count--, block = block->next) {
    const Span* span = pages::page_map.span_of(block);
    if (span->kind != pages::SpanKind::kSmall || span->size_class != size_class || !span->is_block_start(block)) {
      fatal("corrupted free list", first);
    }
  }
  if (block != nullptr || count != 0) fatal("double free", first);
}

void publish_list(ThreadHeap* heap, Block* first) {
  while (first != nullptr) {
    Span* span = pages::page_map.span_of(first);
    if (span->kind != pages::SpanKind::kSmall || !span->is_block_start(first)) fatal("corrupted free list", first);
    Block* last = first;
    uint32_t count = 1;
    while (last->next != nullptr && span->contains(last->next)) {
      if (count == span->capacity) fatal("double free", first);  // a block is twice in the list, which has no end
      last = last->next;
      count++;
    }
    Block* rest = last->next;
    last->next = nullptr;
    publish_remote(heap, span, first, last, count);
    first = rest;
  }
}

namespace {
// The owner has not looked at what it has been sent for a while: it sleeps, or it does not allocate.
bool owner_is_behind(const Block* block) {
  constexpr uint32_t kBacklog = 16;
  const void* owner = pages::page_map.span_of(block)->owner_acquire();
  return reinterpret_cast<uintptr_t>(owner) != Span::kNobody &&
         static_cast<const ThreadHeap*>(owner)->pending_count.load(std::memory_order_relaxed) >= kBacklog;
}

void publish_foreign(ThreadHeap& heap, ClassState& cs, unsigned size_class, bool offer) {
  Block* first = cs.foreign;
  uint32_t count = cs.foreign_count;
  heap.foreign_bytes -= size_t{count} * kClasses[size_class].bytes;
  cs.foreign = nullptr;
  cs.foreign_count = 0;
  check_foreign(first, count, size_class);
  if (!offer || !owner_is_behind(first) || !central_give_list(size_class, first, count)) publish_list(&heap, first);
}
}  // namespace

void free_remote(ThreadHeap* heap, Span* span, Block* block) {
  // A span without an owner becomes ours (rule 5), and its further frees fast ones.
  bool unowned = reinterpret_cast<uintptr_t>(span->owner()) == Span::kNobody && !span->lending;
  if (heap == nullptr || unowned) {
    block->next = nullptr;
    publish_remote(heap, span, block, block, 1);
    return;
  }
  unsigned size_class = span->size_class;
  ClassState& cs = heap->body->classes[size_class];
  // Two steps are as good as free, all are not; but lent blocks are rare.
  const Block* same = cs.foreign;
  for (uint32_t looked = span->lending ? kMaxForeignBlocks : 2; same != nullptr && looked != 0; looked--, same = same->next) {
    if (same == block) fatal("double free", block);
  }
  block->next = cs.foreign;
  cs.foreign = block;
  cs.foreign_count++;
  heap->foreign_bytes += span->block_bytes;
  if (cs.foreign_count >= kMaxForeignBlocks || size_t{cs.foreign_count} * span->block_bytes > kMaxForeignClassBytes) {
    publish_foreign(*heap, cs, size_class, true);
  } else if (heap->foreign_bytes > kMaxForeignBytes) {
    flush_foreign(*heap);
  }
}

void flush_foreign(ThreadHeap& heap) {
  for (unsigned c = 0; c < kClassCount; c++) {
    ClassState& cs = heap.body->classes[c];
    if (cs.foreign != nullptr) publish_foreign(heap, cs, c, false);
  }
}

void publish_lists_of_ending(ThreadHeap& heap) {
  ThreadCache* cache = heap.cache.load(std::memory_order_relaxed);
  for (unsigned c = 0; c < kClassCount; c++) {
    ClassState& cs = heap.body->classes[c];
    Block* foreign = cs.foreign;
    cs.foreign = nullptr;
    cs.foreign_count = 0;
    publish_list(nullptr, foreign);
    if (!cs.mixed) continue;
    Block* listed = cache->heads[c];  // a parked heap has no mixed lists
    Block* stash = cs.stash;
    cache->heads[c] = cs.stash = nullptr;
    cs.stash_count = 0;
    cs.mixed = false;
    publish_list(nullptr, listed);
    publish_list(nullptr, stash);
  }
  heap.foreign_bytes = 0;
}

}  // namespace seemalloc::heap

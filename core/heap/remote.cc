#include "core/heap/remote.h"

#include "core/base/check.h"
#include "core/heap/central.h"
#include "core/pages/page_heap.h"

namespace seemalloc::heap {

using pages::SpanState;

namespace {

// A sleeper's pending spans are looked at once this many have gathered, and then when twice as many as had to stay: each
// look is paid for by the pushes.
constexpr uint32_t kPendingBeforeReclaim = 32;
// A batch of more bytes than this is published at once: what sleeping threads keep in theirs is out of everybody's reach.
constexpr size_t kMaxBatchBytes = 4 * KiB;

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

namespace {
void flush(ThreadHeap& heap, RemoteBatch& batch) {
  RemoteBatch full = batch;
  batch = RemoteBatch{};
  heap.batched_blocks -= full.count;
  publish_remote(&heap, full.span, full.first, full.last, full.count);
}
}  // namespace

void free_remote(ThreadHeap* heap, Span* span, Block* block) {
  block->next = nullptr;
  if (heap == nullptr) {
    publish_remote(nullptr, span, block, block, 1);
    return;
  }
  RemoteBatch& batch = heap->body->batches[(reinterpret_cast<uintptr_t>(span) / sizeof(Span)) % kRemoteBatches];
  if (batch.span != span) {
    if (batch.span != nullptr) flush(*heap, batch);
    batch = RemoteBatch{span, block, block, 1};
  } else {
    if (batch.first == block) fatal("double free", block);
    block->next = batch.first;
    batch.first = block;
    batch.count++;
  }
  heap->batched_blocks++;
  if (batch.count >= kMaxBatchBlocks || batch.count * size_t{span->block_bytes} >= kMaxBatchBytes) flush(*heap, batch);
}

void flush_batches(ThreadHeap& heap) {
  for (RemoteBatch& batch : heap.body->batches) {
    if (batch.span != nullptr) flush(heap, batch);
  }
}

}  // namespace seemalloc::heap

#include "core/heap/remote.h"

#include "core/base/check.h"
#include "core/heap/central.h"
#include "core/pages/page_heap.h"

namespace seemalloc::heap {

using pages::SpanState;

namespace {

// A sleeper's pending spans are looked at once this many have gathered, so that each look is paid for by the pushes.
constexpr uint32_t kPendingBeforeReclaim = 32;

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
  while (span != nullptr) {
    Span* next = span->pending_next;
    uint64_t word = span->remote.load(std::memory_order_acquire);
    if (span->state != SpanState::kCurrent && remote_count(word) == span->live_acquire()) {
      ClassState& cs = owner.classes[span->size_class];
      (span->state == SpanState::kFull ? cs.full : cs.available).remove(span);
      if (cs.available.size() < cs.low_water) cs.low_water = cs.available.size();
      span->remote.store(0, std::memory_order_relaxed);
      span->set_live(0);
      retire_locked(owner, span);
    } else {
      push_pending(owner, span);
    }
    span = next;
  }
  owner.slow_lock.unlock();
}

// Rule 5: the blocks' span belongs to nobody, so it becomes this heap's, and its further frees here are local ones.
bool claim(ThreadHeap& heap, Span* span, Block* first, uint32_t count) {
  LockGuard guard(heap.slow_lock);
  if (!central_claim(span, &heap)) return false;
  heap.owned_spans++;
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
      if (heap != nullptr ? claim(*heap, span, first, count) : central_free(span, first, last, count)) return;
      word = span->remote.load(std::memory_order_relaxed);
      continue;
    }
    if (remote_first(word) == first) fatal("double free", first);
    last->next = remote_first(word);
    longer = pack_remote(first, remote_count(word) + count);
    if (span->remote.compare_exchange_weak(word, longer, std::memory_order_acq_rel, std::memory_order_relaxed)) break;
  }
  ThreadHeap* owner;
  if (word == 0) {
    owner = static_cast<ThreadHeap*>(const_cast<void*>(span->owner_acquire()));
    push_pending(*owner, span);
    if (owner->state.load(std::memory_order_seq_cst) == HeapState::kZombie) hand_on_zombie(*owner);
    return;
  }
  // Not ours to read any more once published; only compared, and reclaim looks again under the lock.
  if (remote_count(longer) != span->live_acquire()) return;
  owner = static_cast<ThreadHeap*>(const_cast<void*>(span->owner_acquire()));
  if (owner != nullptr && owner->pending_count.load(std::memory_order_relaxed) >= kPendingBeforeReclaim) {
    reclaim_for_sleeper(*owner);
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
  RemoteBatch& batch = heap->batches[(reinterpret_cast<uintptr_t>(span) / sizeof(Span)) % kRemoteBatches];
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
  if (batch.count >= kMaxBatchBlocks) flush(*heap, batch);
}

void flush_batches(ThreadHeap& heap) {
  for (RemoteBatch& batch : heap.batches) {
    if (batch.span != nullptr) flush(heap, batch);
  }
}

}  // namespace seemalloc::heap

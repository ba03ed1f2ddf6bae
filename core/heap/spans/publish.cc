#include "core/heap/spans/publish.h"

#include <arch_words.h>

#include "core/base/check.h"
#include "core/heap/spans/central.h"
#include "core/heap/spans/owned_spans.h"
#include "core/heap/spans/remote_batch.h"
#include "core/heap/spans/remote_protocol.h"
#include "core/heap/spans/small_span.h"
#include "core/heap/thread/size_class.h"
#include "core/heap/thread/thread_cache.h"
#include "core/pages/span/page_map.h"

namespace seemalloc::heap {

using pages::SpanState;

namespace {

// A sleeper's pending spans are scanned once this many wait and at least kMinComplete of them can
// be released, which pays for the scan.
constexpr uint32_t kPendingBeforeReclaim = 32;
constexpr uint32_t kMinComplete = 8;

void push_waiting(ThreadHeap& owner, Span* span) {
  DCHECK(remote_count(span->remote.load(std::memory_order_relaxed)) != 0);
  DCHECK(span->owner() == &owner && span->kind == pages::SpanKind::kSmall);
  push_pending(owner, span);
}

// Rule 6: releases the spans of a sleeping owner that no other thread can reach.
void reclaim_for_sleeping_owner(ThreadHeap& owner) {
  if (!owner.slow_lock.try_lock()) return;
  Span* span = take_pending(owner);
  uint32_t stayed = 0;
  while (span != nullptr) {
    Span* next = span->pending_next;
    uint64_t word = span->remote.load(std::memory_order_acquire);
    DCHECK(word != kUnowned && remote_count(word) != 0);
    DCHECK(span->owner() == &owner);
    bool on_list = span->state == SpanState::kFull || span->state == SpanState::kAvailable;
    if (on_list && remote_count(word) + span->hole_blocks() == span->live_acquire()) {
      ClassState& cs = owner.body->classes[span->size_class];
      span->state == SpanState::kFull ? cs.full.remove(span) : remove_available(cs, span);
      span->remote.store(0, std::memory_order_relaxed);
      DCHECK(span->holes == 0 || span->hole_blocks() != 0);
      span->set_live(span->hole_blocks());
      release_empty_span(span);
    } else {
      push_waiting(owner, span);
      stayed++;
    }
    span = next;
  }
  owner.reclaim_at.store(stayed / 4 < kMinComplete ? kMinComplete : stayed / 4,
                         std::memory_order_relaxed);
  owner.slow_lock.unlock();
}

// All live blocks of one of the owner's spans have been freed by other threads.
void note_all_freed_remotely(ThreadHeap& owner) {
  uint32_t complete = owner.complete_count.fetch_add(1, std::memory_order_relaxed) + 1;
  if (complete >= owner.reclaim_at.load(std::memory_order_relaxed) &&
      owner.pending_count.load(std::memory_order_relaxed) >= kPendingBeforeReclaim) {
    reclaim_for_sleeping_owner(owner);
  }
}

// Rule 5: no heap owns the blocks' span, so it becomes this heap's, and its further frees here are
// local ones.
bool claim(ThreadHeap& heap, Span* span, BlockList list, uint32_t count) {
  LockGuard guard(heap.slow_lock);
  if (!central_claim(span, &heap)) return false;
  DCHECK(span->owner() == &heap && !span->blocks_are_shared());
  add_owned_span_locked(heap, span);
  return_blocks_locked(heap, span, list, count);
  return true;
}

// The span was found without an owner. Returns false if it has got one meanwhile.
bool free_unowned(ThreadHeap* heap, Span* span, Block* const* blocks, uint32_t count) {
  BlockList list = link_blocks(blocks, count);
  if (heap != nullptr && !span->blocks_are_shared() && claim(*heap, span, list, count)) return true;
  return central_free(span, list.first, list.last, count);
}

}  // namespace

bool publish_remote(ThreadHeap* heap, Span* span, Block* const* blocks, uint32_t count) {
  Block* first = blocks[0];
  DCHECK(count != 0 && count <= kMaxGatheredBlocks && span->contains(first) &&
         span->is_block_start(first));
  Block* last = nullptr;  // the block that holds the last batch
  auto free_without_owner = [&] {
    last = nullptr;  // links the blocks as a list instead
    return free_unowned(heap, span, blocks, count);
  };
  auto extend_list = [&](uint64_t chain) {
    if (remote_first(chain) == first) fatal("double free", first);
    if (last == nullptr) last = write_batches(span, blocks, count);
    set_next_batch(span, last, remote_first(chain));
    uint64_t longer = pack_remote(first, remote_count(chain) + count);
    DCHECK(remote_first(longer) == first && remote_count(longer) == remote_count(chain) + count);
    return longer;
  };
  auto [word, longer] = lengthen_chain(span, free_without_owner, extend_list);
  if (word == kUnowned) return true;
  // Only compared: once published, the span may be released and its record reused.
  bool all_remote = remote_count(longer) + span->hole_blocks() == span->live_acquire();
  const void* owner_word = span->owner_acquire();
  if (reinterpret_cast<uintptr_t>(owner_word) <= Span::kNoOwner) {
    // The span has been released meanwhile; with 0 its record's page has been purged too
    // (span_pool.h). If the word was 0, no remote free was waiting that could have released the
    // span: it was released before, so these blocks are freed twice.
    if (word == 0) fatal("double free", first);
    return false;
  }
  ThreadHeap& owner = *static_cast<ThreadHeap*>(const_cast<void*>(owner_word));
  if (word == 0) {
    push_waiting(owner, span);
    if (is_zombie(owner)) drain_zombie(owner);
  }
  if (all_remote) note_all_freed_remotely(owner);
  return false;
}

namespace {

// Publishes a null-terminated list, in parts. Returns the number of blocks.
uint64_t publish_list(Block* first) {
  uint64_t blocks_in_all = 0;
  while (first != nullptr) {
    Block* blocks[kMaxGatheredBlocks];
    uint32_t count = 0;
    for (; first != nullptr && count < kMaxGatheredBlocks; first = first->next) {
      if (pages::page_map.span_of(first)->kind != pages::SpanKind::kSmall)
        fatal("corrupted free list", first);
      blocks[count++] = first;
    }
    blocks_in_all += count;
    publish_blocks(nullptr, blocks, count);
  }
  return blocks_in_all;
}

}  // namespace

void reclaim_for_sleeping_owners() {
  for (ThreadHeap* heap = all_heaps(); heap != nullptr; heap = heap->next_all) {
    if (heap != thread_cache.heap && heap->pending_count.load(std::memory_order_relaxed) != 0)
      reclaim_for_sleeping_owner(*heap);
  }
}

bool publish_blocks(ThreadHeap* heap, Block** blocks, uint32_t count) {
  bool unowned = false;
  while (count != 0) {
    Span* span = pages::page_map.span_of(blocks[0]);
    Block* same[kMaxGatheredBlocks];
    uint32_t same_count = 0, others = 0;
    for (uint32_t i = 0; i < count; i++) {
      if (!span->contains(blocks[i])) {
        blocks[others++] = blocks[i];
        continue;
      }
      if (span->kind != pages::SpanKind::kSmall || !span->is_block_start(blocks[i]))
        fatal("corrupted free list", blocks[i]);
      same[same_count++] = blocks[i];
    }
    DCHECK(same_count != 0 && same_count + others == count);
    unowned |= publish_remote(heap, span, same, same_count);
    count = others;
  }
  return unowned;
}

void publish_central_lists(bool all) {
  for (unsigned c = 0; c < kClassCount; c++) {
    Block* blocks[kMaxGatheredBlocks];
    while (uint32_t count = central_take_unneeded(c, all, blocks))
      publish_blocks(nullptr, blocks, count);
  }
}

namespace {
// The thread free list and the stash hold blocks of other spans.
void publish_mixed_lists(ThreadHeap& heap, unsigned size_class) {
  ClassState& cs = heap.body->classes[size_class];
  // null: lost with its thread, or by a fork.
  ThreadCache* cache = heap.cache.load(std::memory_order_relaxed);
  Block* listed = cache != nullptr ? cache->heads[size_class] : nullptr;
  Block* stash = cs.stash;
  // Other threads may be counting the list.
  if (cache != nullptr) racy_store(cache->heads[size_class], static_cast<Block*>(nullptr));
  cs.stash = nullptr;
  cs.stash_count = 0;
  DCHECK(cs.lists_not_from_current);
  cs.lists_not_from_current = false;
  count_unused_bytes(publish_list(listed) * kClasses[size_class].bytes);
  publish_list(stash);
}
}  // namespace

void publish_gathered_lists(ThreadHeap& heap) {
  for (unsigned c = 0; c < kClassCount; c++) {
    ClassState& cs = heap.body->classes[c];
    Block* gathered = cs.gathered;
    count_remote_frees(&heap, cs.gathered_count);
    cs.gathered = nullptr;
    cs.gathered_count = 0;
    // Not by count: at a fork the thread may have been about to write the count.
    publish_list(gathered);
    if (cs.lists_not_from_current) publish_mixed_lists(heap, c);
  }
  heap.gathered_bytes = 0;
}

}  // namespace seemalloc::heap

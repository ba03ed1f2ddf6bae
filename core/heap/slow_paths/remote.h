// Remote free: a block is freed by a thread that does not own its span.
//
// Protocol. span->remote is one word:
//   0           owned, no remote frees are waiting
//   kUnowned    the span belongs to the central list
//   otherwise   batch << 16 | blocks: a chain of batches (remote_batch.h) with this many blocks
//   waits for the owner; the span
//               is on the owner's pending stack, or is about to be pushed on it
// 1. The freeing thread gathers remote blocks per class (ClassState::gathered). They are its next
//    thread free list; their spans still count them as live. So threads that free each other's
//    blocks and need such blocks themselves need not communicate. When a class has too many of them
//    they are published: those of one span with one CAS, word → longer chain.
// 2. The thread whose CAS replaces 0 pushes the span on owner->pending. From that CAS until the
//    owner exchanges the word for 0 the owner cannot change: central_put refuses a span whose word
//    is not 0. So `owner` is read after the CAS.
// 3. The owner empties `pending` at its slow paths and takes each span's chain with exchange(0).
// 4. An ending thread stores state = kZombie, then empties `pending` once more. A pusher pushes,
//    then reads `state`. Both are sequentially consistent, so at least one of the two sees the
//    other and releases the span. An abandoned heap (kAbandoned) is an owner that sleeps: pushed
//    spans wait for its next thread, or for the tick that makes it a zombie.
// 5. If the word is kUnowned the freeing thread claims the span for its heap. A thread without a
//    heap frees under the central list's lock instead; so does every thread if the span is a shared
//    one (Span::blocks_are_shared) or detached (holes.h).
// 6. A sleeping owner: when all live blocks of a span are in its remote chain, no thread can use
//    the fast path on it any more. So the publisher may take the owner's slow_lock and release the
//    span on the owner's behalf. It tries this once enough spans have reached that point to pay for
//    a scan of all pending ones. free() counts down last (Span::count_down), so a count that
//    matches also proves that the owner's stores have been made.
// The lock-free steps are in remote_protocol.h. Checked by remote_model_test.cc, which runs them in
// every interleaving, and remote_test.cc (threads, also under the thread sanitizer).
#pragma once

#include <cstdint>

#include "core/base/check.h"
#include "core/heap/thread/thread_cache.h"
#include "core/heap/thread/thread_heap.h"
#include "core/pages/span/span.h"

namespace seemalloc::heap {

// A class that gathers more bytes than this, or kMaxGatheredBlocks blocks, publishes them: no other
// thread can reach blocks that a sleeping thread keeps.
inline constexpr size_t kMaxGatheredClassBytes = 16 * KiB;
inline constexpr size_t kMaxGatheredBytes = 64 * KiB;  // of all classes together
// Above this a block of a shared span is returned at once: a thread that has used a few blocks of
// each size and then sleeps should not keep all of them from the others.
inline constexpr size_t kMaxSharedBlockBytes = 16 * KiB;

// Rule 1 for one block of a small span that `heap`, the calling thread's, does not own. Returns
// false if more than gathering is needed; then free_remote decides.
// Inlined, with few stores and no stack frame. Stores leave the processor in order, and stores to
// blocks wait for another processor's cache; the fewer other stores are between them, the more of
// them are under way at once.
SEEMALLOC_ALWAYS_INLINE bool gather_remote(ThreadHeap& heap, const Span* span, Block* block) {
  if (reinterpret_cast<uintptr_t>(span->owner()) == Span::kNoOwner || !span->is_block_start(block))
    return false;
  ClassState& cs = heap.body->classes[span->size_class];
  DCHECK(&heap == thread_cache.heap && span->kind == pages::SpanKind::kSmall &&
         span->owner() != &heap);
  uint32_t count = cs.gathered_count + 1;
  size_t bytes = heap.gathered_bytes + span->block_bytes;
  size_t class_bytes = size_t{count} * span->block_bytes;
  if (count >= kMaxGatheredBlocks || class_bytes > kMaxGatheredClassBytes ||
      bytes > kMaxGatheredBytes)
    return false;
  Block* last = cs.gathered;
  if (last != nullptr && (last == block || last->next == block)) return false;  // double free
  block->next = last;
  cs.gathered = block;
  cs.gathered_count = count;
  heap.gathered_bytes = bytes;
  return true;
}
// Frees one block of a span that another heap owns. `heap` is the calling thread's heap, in which
// blocks are gathered; with null the block is published at once.
void free_remote(ThreadHeap* heap, Span* span, Block* block);
// Takes all gathered blocks of the class, the last one first: at most kMaxGatheredBlocks. Returns
// their number. Fatal if the program has written to the list, or it has a block twice.
uint32_t take_gathered(ThreadHeap& heap, unsigned size_class, Block** blocks);
// Publishes all gathered blocks.
void flush_gathered(ThreadHeap& heap);

}  // namespace seemalloc::heap

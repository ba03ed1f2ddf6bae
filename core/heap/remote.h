// Remote free: a block freed by a thread that does not own its span.
//
// Protocol. span->remote is one word:
//   0           owned, nothing waiting
//   kUnowned    in the central list's care
//   otherwise   parcel << 16 | blocks: a chain of parcels (parcel.h) with so many blocks waits for the owner; the span is
//               on, or about to be on, the owner's pending stack
// 1. The freeing thread gathers blocks per class (ClassState::foreign). They are its next malloc list, still counted as live
//    by their spans: threads that free each other's blocks and need such blocks themselves have nothing to tell each other.
//    When there are too many they are published, those of one span with one CAS: word → longer chain.
// 2. Whoever makes the list from 0 pushes the span on owner->pending. From that CAS until the owner exchanges the word
//    for 0, the owner cannot change: central_put refuses a span whose word is not 0. So owner is read after the CAS.
// 3. The owner empties pending at its slow paths and takes each span's chain with exchange(0).
// 4. An ending thread stores state = kZombie, then empties pending once more; a pusher pushes, then reads state (both
//    sequentially consistent): one of the two sees the other, and hands the span on.
//    A parked heap is an owner that sleeps: what is pushed waits for its next thread, or for the tick that makes it a zombie.
// 5. kUnowned: the freeing thread claims the span for its heap; without a heap, and always when the span is a lending one or
//    detached (holes.h), it frees under the central list's lock.
// 6. A sleeping owner: when all live blocks of a span are in its remote chain nobody can use the fast path on it any
//    more, so the publisher may, with the owner's slow_lock, give the span back on the owner's behalf. It looks when so many
//    spans are so far that they pay for a look at all that are pending. free() counts
//    down last (Span::count_down), so a count that matches also says that the owner's stores have been made.
// Checked by remote_test.cc (threads, also under the thread sanitizer) and remote_model_test.cc (every interleaving of
// the protocol's steps on a small model).
#pragma once

#include <cstdint>

#include "core/heap/thread_heap.h"
#include "core/pages/span.h"

namespace seemalloc::heap {

inline constexpr uint64_t kUnowned = 1;

inline uint64_t pack_remote(const Block* first, uint32_t count) { return reinterpret_cast<uint64_t>(first) << 16 | count; }
inline Block* remote_first(uint64_t word) { return reinterpret_cast<Block*>(word >> 16); }
inline uint32_t remote_count(uint64_t word) { return word == kUnowned ? 0 : static_cast<uint32_t>(word & 0xffff); }

// More bytes of a class than this, or kMaxForeignBlocks, are published: what sleeping threads keep is out of everybody's
// reach.
inline constexpr size_t kMaxForeignClassBytes = 16 * KiB;
inline constexpr size_t kMaxForeignBytes = 64 * KiB;  // of all classes together
// With more than this a lent block goes back at once: a thread that has used a few blocks of each size and then sleeps is not to
// keep them all from the others.
inline constexpr size_t kMaxLentBytes = 16 * KiB;

// Rule 1 for one block of a small span that is not `heap`'s, when that is all there is to do; else false, and free_remote
// decides. `heap` is the calling thread's. Inlined, with few stores and no stack frame: stores leave in order, those to blocks
// wait for another processor's cache, and the fewer others stand between them the more are under way at once.
SEEMALLOC_ALWAYS_INLINE bool gather_foreign(ThreadHeap& heap, const Span* span, Block* block) {
  if (reinterpret_cast<uintptr_t>(span->owner()) == Span::kNobody || !span->is_block_start(block)) return false;
  ClassState& cs = heap.body->classes[span->size_class];
  uint32_t count = cs.foreign_count + 1;
  size_t bytes = heap.foreign_bytes + span->block_bytes;
  size_t class_bytes = size_t{count} * span->block_bytes;
  if (count >= kMaxForeignBlocks || class_bytes > kMaxForeignClassBytes || bytes > kMaxForeignBytes) return false;
  Block* last = cs.foreign;
  if (last != nullptr && (last == block || last->next == block)) return false;  // freed twice
  block->next = last;
  cs.foreign = block;
  cs.foreign_count = count;
  heap.foreign_bytes = bytes;
  return true;
}
// Frees one block of another's span. `heap` is the calling thread's, for gathering; null publishes at once.
void free_remote(ThreadHeap* heap, Span* span, Block* block);
// Blocks sent to their spans' owners so far; those that their thread used again itself are none of them.
uint64_t remote_frees();
void forget_heapless_remote_frees_in_child();
// Takes what has been gathered of the class, the last one first: at most kMaxForeignBlocks. Returns their number. Fatal when
// the list has been written to, or has a block twice.
uint32_t take_foreign(ThreadHeap& heap, unsigned size_class, Block** blocks);
// Publishes everything gathered.
void flush_foreign(ThreadHeap& heap);
// Publishes `count` blocks of any spans, in whose place nothing useful stands afterwards. `heap` is the calling thread's, or
// null.
void publish_blocks(ThreadHeap* heap, Block** blocks, uint32_t count);
// Gives back what sleeping owners have only remotely freed blocks in, however little has gathered.
void reclaim_for_sleepers();
// Publishes what the heap's malloc lists have of other spans, and everything gathered: its thread ends, or is gone.
void publish_lists_of_ending(ThreadHeap& heap);

}  // namespace seemalloc::heap

// Remote free: a block freed by a thread that does not own its span.
//
// Protocol. span->remote is one word:
//   0           owned, nothing waiting
//   kUnowned    in the central list's care
//   otherwise   list head << 16 | length: blocks waiting for the owner; the span is on, or about to be on, the owner's
//               pending stack
// 1. The freeing thread gathers blocks per class (ClassState::foreign). They are its next malloc list, still counted as live
//    by their spans: threads that free each other's blocks and need such blocks themselves have nothing to tell each other.
//    When there are too many they are published, those of one span with one CAS: word → longer list.
// 2. Whoever makes the list from 0 pushes the span on owner->pending. From that CAS until the owner exchanges the word
//    for 0, the owner cannot change: central_put refuses a span whose word is not 0. So owner is read after the CAS.
// 3. The owner empties pending at its slow paths and takes each span's list with exchange(0).
// 4. An ending thread stores state = kZombie, then empties pending once more; a pusher pushes, then reads state (both
//    sequentially consistent): one of the two sees the other, and hands the span on.
//    A parked heap is an owner that sleeps: what is pushed waits for its next thread, or for the tick that makes it a zombie.
// 5. kUnowned: the freeing thread claims the span for its heap; without a heap, and always when the span is a lending one,
//    it frees under the central list's lock.
// 6. A sleeping owner: when all live blocks of a span are on its remote list nobody can use the fast path on it any
//    more, so the publisher may, with the owner's slow_lock, give the span back on the owner's behalf. free() counts
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

// Frees one block of another's span. `heap` is the calling thread's, for gathering; null publishes at once.
void free_remote(ThreadHeap* heap, Span* span, Block* block);
// Publishes everything gathered.
void flush_foreign(ThreadHeap& heap);
// Publishes a null-terminated list of blocks of any spans. `heap` is the calling thread's, or null.
void publish_list(ThreadHeap* heap, Block* first);
// Fatal unless the list has so many blocks of the class: one freed twice makes a ring of it, one written to leads elsewhere.
void check_foreign(const Block* first, uint32_t count, unsigned size_class);
// Gives back what sleeping owners have only remotely freed blocks in, however little has gathered.
void reclaim_for_sleepers();
// Publishes what the heap's malloc lists have of other spans, and everything gathered: its thread ends, or is gone.
void publish_lists_of_ending(ThreadHeap& heap);
// Publishes `count` linked, null-terminated blocks of one span. `heap` is the calling thread's, or null.
void publish_remote(ThreadHeap* heap, Span* span, Block* first, Block* last, uint32_t count);

}  // namespace seemalloc::heap

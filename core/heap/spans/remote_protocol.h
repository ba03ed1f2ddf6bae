// The lock-free steps of the protocol in remote.h, as templates over the types of spans and heaps,
// whose words may be those of another machine (core/os/kernel/real_machine.h). So
// remote_model_test.cc runs this code in every interleaving.
//
// Callers: publish.cc (the freeing threads), owned_spans.cc and hand_over.cc (the owner),
// central.cc.
#pragma once

#include <atomic>
#include <cstdint>

#include "core/heap/spans/remote_batch.h"
#include "core/heap/thread/thread_heap.h"

namespace seemalloc::heap {

struct Published {
  uint64_t before, after;  // Span::remote; before == kUnowned: freed without an owner
};

// Rules 1 and 5: makes the chain of the span longer. lengthen(word) writes the blocks in front of
// the chain and returns the new word. free_unowned() frees them to a span without an owner, or
// returns false if it has got one meanwhile.
template <typename S, typename FreeUnowned, typename Lengthen>
inline Published lengthen_chain(S* span, FreeUnowned free_unowned, Lengthen lengthen) {
  uint64_t word = span->remote.load(std::memory_order_relaxed);
  for (;;) {
    if (word == kUnowned) {
      if (free_unowned()) return {kUnowned, kUnowned};
      word = span->remote.load(std::memory_order_relaxed);
      continue;
    }
    uint64_t longer = lengthen(word);
    if (span->remote.compare_exchange_weak(word, longer, std::memory_order_acq_rel,
                                           std::memory_order_relaxed))
      return {word, longer};
  }
}

// Rule 2.
template <typename Heap, typename S>
inline void push_pending(Heap& owner, S* span) {
  S* top = owner.pending.load(std::memory_order_relaxed);
  do {
    span->pending_next = top;
  } while (!owner.pending.compare_exchange_weak(top, span, std::memory_order_seq_cst,
                                                std::memory_order_relaxed));
  owner.pending_count.fetch_add(1, std::memory_order_relaxed);
}

// Rule 3: the stack of pending spans, linked by pending_next.
template <typename Heap>
inline auto take_pending(Heap& heap) {
  auto* span = heap.pending.exchange(nullptr, std::memory_order_seq_cst);
  heap.pending_count.store(0, std::memory_order_relaxed);
  heap.complete_count.store(0, std::memory_order_relaxed);
  return span;
}
// Takes the chain of a pending span. Read pending_next before: another thread may push the span
// again at once.
template <typename S>
inline uint64_t take_chain(S* span) {
  return span->remote.exchange(0, std::memory_order_acq_rel);
}
// Takes the chains of all pending spans: calls taken(span, chain) for each.
template <typename Heap, typename Taken>
inline void take_pending_chains(Heap& heap, Taken taken) {
  for (auto* span = take_pending(heap); span != nullptr;) {
    auto* next = static_cast<decltype(span)>(span->pending_next);
    uint64_t chain = take_chain(span);
    taken(span, chain);
    span = next;
  }
}

// Rule 4, the owner: release() empties `pending` and gives away the spans that have no chain.
template <typename Heap, typename Release>
inline void become_zombie(Heap& heap, Release release) {
  heap.state.store(HeapState::kZombie, std::memory_order_seq_cst);
  release();  // a remote free that has not seen the new state has pushed before this
}
// Rule 4, the pusher: true if it has to release the span for the owner.
template <typename Heap>
inline bool is_zombie(const Heap& owner) {
  return owner.state.load(std::memory_order_seq_cst) == HeapState::kZombie;
}

// Rule 2: the span loses its owner, unless remote frees wait. Requires: the central list's lock.
template <typename S>
inline bool leave_owner(S* span) {
  uint64_t nothing = 0;
  if (!span->remote.compare_exchange_strong(nothing, kUnowned, std::memory_order_acq_rel,
                                            std::memory_order_relaxed))
    return false;
  span->clear_owner();
  return true;
}
// The span gets an owner. Requires: the central list's lock, and remote == kUnowned.
template <typename S, typename Owner>
inline void get_owner(S* span, Owner owner) {
  span->set_owner(owner);
  span->remote.store(0, std::memory_order_release);
}

}  // namespace seemalloc::heap

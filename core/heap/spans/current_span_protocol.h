// The lock-free steps of current_spans.h, as templates over the types of spans, heaps and thread
// caches, whose words may be those of another machine (core/os/kernel/real_machine.h). So
// current_spans_model_test.cc runs this code in every interleaving.
//
// Callers: owner_paths.h (the owner), current_spans.cc (the purger).
#pragma once

#include <arch_words.h>

#include <cstddef>
#include <cstdint>

#include "core/base/compiler.h"
#include "core/base/shared_words.h"
#include "core/heap/spans/span_holes.h"

namespace seemalloc::heap {

// Checks the first two blocks of a free list before they are followed. This finds what a stray
// write or an invalid free has left at the front. Checking every link would cost a cache miss per
// block (docs/decisions/0001).
template <typename S, typename B>
SEEMALLOC_ALWAYS_INLINE bool first_links_are_sound(const S* span, const B* first) {
  if (!span->is_carved_block(first)) return false;
  const B* second = first->next;
  // Makes the compiler load again: cheaper than saving registers.
  __asm__ volatile("" ::: "memory");
  return second == nullptr || span->is_carved_block(second);
}

// The owner, whose thread free list has ended: takes the whole local free list of the current span.
// Returns its first block, and makes the others the thread free list. Returns null if refill has to
// decide.
// malloc has stored the null that ends the thread free list; the load of the span comes after that.
// The store of the new thread free list is the last one: a thread that sees it also sees the span
// without the list.
template <typename Heap, typename Cache>
SEEMALLOC_ALWAYS_INLINE auto take_local_frees(Heap& heap, Cache& cache, size_t size_class)
    -> decltype(load_own(cache.heads[size_class])) {
  auto* span = racy_load(heap.body->local_refill_spans[size_class]);
  if (span == nullptr) return nullptr;
  auto* first = load_own(span->local_free);
  if (first == nullptr || !first_links_are_sound(span, first)) return nullptr;
  // Refill sets it anew.
  if (decrement_below_zero(heap.body->local_refills_left[size_class])) return nullptr;
  uint64_t clock =
      heap.allocated_bytes + uint64_t{span->free_blocks_of_current()} * span->block_bytes;
  if (clock >= heap.sample_at) {
    heap.body->local_refills_left[size_class]++;  // no list is handed out
    return nullptr;
  }
  heap.allocated_bytes = clock;
  racy_store(span->local_free, static_cast<decltype(first)>(nullptr));
  span->set_all_live();
  store_release(cache.heads[size_class], first->next);
  return first;
}

// Steps 1 and 2. choose() returns one bit per class; it runs under slow_lock. Returns the classes
// of which step 3 may take the current span: 0 if the heap is busy or the kernel has no fence.
template <typename Machine, typename Heap, typename Choose>
uint64_t close_local_refills(Heap& heap, Choose choose) {
  if (!heap.slow_lock.try_lock()) return 0;
  uint64_t classes = choose();
  for (uint64_t rest = classes; rest != 0; rest &= rest - 1) {
    auto& span = heap.body->local_refill_spans[__builtin_ctzll(rest)];
    store_relaxed(span, static_cast<decltype(load_own(span))>(nullptr));
  }
  heap.slow_lock.unlock();
  return classes != 0 && Machine::fence_all_threads() ? classes : 0;
}

// Step 3. list_head() returns the first block of the class's thread free list, read with acquire;
// null if there is none or it cannot be read. may_take(span, head) may refuse. Both run under
// slow_lock. Returns the detached span, or null.
template <typename S, typename Heap, typename ListHead, typename MayTake>
S* take_closed_span(Heap& heap, unsigned size_class, ListHead list_head, MayTake may_take) {
  if (!heap.slow_lock.try_lock()) return nullptr;
  auto& cs = heap.body->classes[size_class];
  S* span = cs.current;
  auto* head = list_head();
  bool closed = head != nullptr && span != nullptr &&
                load_own(heap.body->local_refill_spans[size_class]) == nullptr;
  if (closed && may_take(span, head)) {
    cs.current = nullptr;
    cs.lists_not_from_current = true;
    note_detached(span);
    heap.detached_spans++;
  } else {
    span = nullptr;
  }
  heap.slow_lock.unlock();
  return span;
}

}  // namespace seemalloc::heap

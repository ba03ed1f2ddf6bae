// SpanCounts: the local free list of a span, and its count of live blocks. A base of Span, and a
// template over it: model tests give it spans with other words (core/base/shared_words.h).
//
// S has local_free, countdown, bias, carved, holes, hole_blocks_ and block_bytes (see Span).
//
// Protocol:
// 1. Only the owner's free pushes onto local_free without a lock, and only the owner decrements
//    countdown. A free pushes the block, then counts down: both stores release. The second is the
//    free's last access to the span.
// 2. Another thread may read both under the owner's slow_lock, with acquire. If it reads the count
//    first, every block that the count reports free is on the list that it reads then. Behind the
//    first block of that list, no link changes as long as no thread allocates from the span.
// 3. Other threads never write countdown: a decrement of the owner would be lost, or theirs. They
//    raise bias, under slow_lock.
// Checked by span_counts_model_test.cc, current_spans_model_test.cc and holes_model_test.cc, which
// run this code in every interleaving, with weak memory.
#pragma once

#include <arch_words.h>

#include <cstdint>

#include "core/base/check.h"
#include "core/base/compiler.h"
#include "core/base/shared_words.h"

namespace seemalloc::pages {

template <typename S>
struct SpanCounts {
  static constexpr uint32_t kNoCountdown = uint32_t{1} << 31;

  uint32_t live() const { return load_own(self().countdown) + load_own(self().bias); }
  void set_live(uint32_t live) {
    uint32_t in_holes = load_own(self().hole_blocks_);
    DCHECK(live >= in_holes && (self().block_bytes == 0 || live <= self().carved));
    set_countdown(live - in_holes, in_holes);
  }
  // No block of it is allocated.
  bool is_empty() const { return live() == load_own(self().hole_blocks_); }
  // The same, for a thread other than the owner's. Once true, only the holder of slow_lock can
  // reach the span (remote.h, rule 6).
  bool is_empty_acquire() const { return live_acquire() == hole_blocks(); }
  // For a span whose countdown must never reach zero: its owner checks it whenever a list ends.
  void set_live_without_countdown(uint32_t live) {
    DCHECK(live <= self().carved && live >= load_own(self().hole_blocks_));
    set_countdown(live + kNoCountdown, 0 - kNoCountdown);
  }
  void set_countdown(uint32_t frees, uint32_t rest) {
    store_relaxed(self().countdown, frees);
    store_relaxed(self().bias, rest);
  }
  // After set_live_without_countdown() the bias is constant: only the countdown changes.
  uint32_t free_blocks_of_current() const {
    return self().carved + kNoCountdown - load_own(self().countdown);
  }
  void set_all_live() { store_relaxed(self().countdown, self().carved + kNoCountdown); }
  // Number of blocks on local_free.
  uint32_t free_blocks() const { return self().carved - live(); }

  // Changes under the lock of the span's owner or list; a hint without it.
  uint32_t hole_blocks() const { return load_relaxed(self().hole_blocks_); }
  // This many free blocks were taken off the list because their pages are purged. They count as
  // live from now on, through the bias: the countdown belongs to the owner, which may be
  // decrementing it.
  void add_holes(uint32_t pages, uint32_t blocks) {
    uint32_t in_holes = load_own(self().hole_blocks_) + blocks;
    DCHECK((self().holes & pages) == 0 && in_holes <= self().carved);
    self().holes = self().holes | pages;
    store_relaxed(self().hole_blocks_, in_holes);
    store_relaxed(self().bias, load_own(self().bias) + blocks);
  }
  // The blocks are about to be allocated: they continue to count as live.
  void remove_holes(uint32_t pages, uint32_t blocks) {
    uint32_t in_holes = load_own(self().hole_blocks_);
    DCHECK((self().holes & pages) == pages && in_holes >= blocks);
    self().holes = self().holes & ~pages;
    store_relaxed(self().hole_blocks_, in_holes - blocks);
  }
  void forget_holes() {
    self().holes = 0;
    store_relaxed(self().hole_blocks_, uint32_t{0});
  }

  // The owner's free. Release: a thread that sees the block on the list also sees its link.
  template <typename B>
  SEEMALLOC_ALWAYS_INLINE void push_local_free(B* block) {
    block->next = load_own(self().local_free);
    store_release(self().local_free, block);
  }
  // The list as seen by another thread that has detached the span: the part behind the first block
  // does not change.
  auto free_list_acquire() const { return load_acquire(self().local_free); }

  // The owner's last access in a free; it orders all earlier writes of the owner to the span before
  // it. Pairs with live_acquire(). Returns true at zero.
  SEEMALLOC_ALWAYS_INLINE bool count_down() { return decrement_release(self().countdown); }
  // For threads that do not own the span. With the owner's slow_lock held, the result is at least
  // the true number, and every access of the owner that it counts has completed.
  uint32_t live_acquire() const {
    return load_acquire(self().countdown) + load_relaxed(self().bias);
  }

 private:
  SEEMALLOC_ALWAYS_INLINE S& self() { return static_cast<S&>(*this); }
  SEEMALLOC_ALWAYS_INLINE const S& self() const { return static_cast<const S&>(*this); }
};

}  // namespace seemalloc::pages

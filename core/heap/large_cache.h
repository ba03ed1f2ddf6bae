// LargeCache: large spans that a thread has just freed, for its next requests of about the same size.
//
// A program that allocates and frees buffers would otherwise take the page heap's lock and write the page map for each of
// their pages, both ways. One list per number of pages, the span freed last in front: what is wanted next is found without
// a search. Bounded by bytes; what stays unused for a purge delay goes to the page heap.
// Who calls: core/api's slow paths and, for idle threads, whoever ticks.
// Threads: the owner between enter and leave of `lock`, another thread between try_close and open. A span is put on and
// taken off its list by one store each, so that in a forked child it is on it or not.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "core/os/asymmetric_lock.h"
#include "core/pages/page_heap.h"
#include "core/pages/span.h"

namespace seemalloc::heap {

using pages::Span;

// What one thread may keep, and the time in half purge delays.
extern std::atomic<size_t> large_limit_bytes;
extern std::atomic<uint32_t> large_epoch;

class LargeCache {
 public:
  // The owner's. A span of at least `page_count` pages, and at most an eighth more; its contents are what they were.
  // Requires: 1 ≤ page_count ≤ kMaxRegionRunPages.
  SEEMALLOC_ALWAYS_INLINE Span* take(size_t page_count) {
    if (!lock_.enter()) return nullptr;
    Span* span = lists_[page_count];
    if (SEEMALLOC_LIKELY(span != nullptr)) {
      take_first(page_count);
    } else {
      span = take_larger(page_count);
    }
    lock_.leave();
    return span;
  }
  // Keeps a kLarge span; false when it is not to be kept.
  SEEMALLOC_ALWAYS_INLINE bool put(Span* span) {
    size_t limit = large_limit_bytes.load(std::memory_order_relaxed);
    if (span->bytes > limit || !lock_.enter()) return false;
    if (SEEMALLOC_UNLIKELY(bytes_ + span->bytes > limit)) make_room(span->bytes, limit);
    push(span);
    lock_.leave();
    return true;
  }

  // Gives spans back to the page heap: those that were put before `epoch`, or all.
  // By the owner:
  void flush();
  // By another thread; nothing where the owner is busy:
  void flush_idle(uint32_t epoch);
  // In a forked child: whoever was in is gone.
  void reset();

  size_t bytes() const { return __atomic_load_n(&bytes_, __ATOMIC_RELAXED); }

 private:
  SEEMALLOC_ALWAYS_INLINE void take_first(size_t pages) {
    Span* span = lists_[pages];
    set_list(pages, span->next);
    set_bytes(bytes_ - span->bytes);
    span->sample_id = 0;
    span->kind = pages::SpanKind::kLarge;
  }
  SEEMALLOC_ALWAYS_INLINE void push(Span* span) {
    size_t pages = span->bytes >> kPageShift;
    span->kind = pages::SpanKind::kCachedLarge;
    span->known_zero = false;
    span->cached_epoch = large_epoch.load(std::memory_order_relaxed);
    span->next = lists_[pages];
    set_bytes(bytes_ + span->bytes);
    set_list(pages, span);
  }
  // Also notes which lists have a span.
  SEEMALLOC_ALWAYS_INLINE void set_list(size_t pages, Span* first) {
    __atomic_store_n(&lists_[pages], first, __ATOMIC_RELEASE);
    uint64_t bit = uint64_t{1} << (pages % 64);
    filled_[pages / 64] = first != nullptr ? filled_[pages / 64] | bit : filled_[pages / 64] & ~bit;
  }
  SEEMALLOC_ALWAYS_INLINE void set_bytes(size_t bytes) { __atomic_store_n(&bytes_, bytes, __ATOMIC_RELAXED); }
  // The first list at or above `pages` that has a span; kLists when there is none.
  size_t next_filled(size_t pages) const;
  SEEMALLOC_NOINLINE Span* take_larger(size_t page_count);
  SEEMALLOC_NOINLINE void make_room(size_t bytes, size_t limit);
  void flush_before(uint32_t epoch);
  void drop_before(size_t pages, uint32_t epoch);

  static constexpr size_t kLists = pages::kMaxRegionRunPages + 1;

  AsymmetricLock lock_;
  uint16_t victim_ = 0;  // the list to take spans from next when there is no room
  size_t bytes_ = 0;
  uint64_t filled_[kLists / 64 + 1] = {};
  Span* lists_[kLists] = {};  // by pages
};

// Sets how much each of so many threads may keep. Called when a thread gets its heap and at every tick.
void share_large_budget(unsigned threads);

// Gives large spans that idle threads keep, and pages that have been free for a while, back when it is time. Cheap when it
// is not: reads a clock. Requires: no lock held (it makes system calls).
void tick();
// Gives every free page back now, other threads' cached large spans included. Returns bytes given back to the system.
size_t purge_all();

}  // namespace seemalloc::heap

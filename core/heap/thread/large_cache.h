// LargeCache: large spans that a thread has just freed, for its next requests of about the same
// size.
//
// Without it a program that allocates and frees buffers would take the page heap's lock and write
// the page map for each of their pages, both ways. The span freed last is in a field of its own at
// a fixed address, so a program that allocates and frees one buffer waits for few loads. The others
// are on one list per number of pages, the one freed last in front, so take() needs no search. The
// cache is bounded by bytes. Spans that stay unused for a purge delay go to the page heap.
// Callers: core/api's slow paths and, for idle threads, tick().
// Threads: the owner between enter and leave of `lock_`, another thread between try_lock_other and
// open. A span is added or removed by one store each, and moved by two, the new position first. So
// a forked child finds it once, or twice, which reset() repairs.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "core/base/check.h"
#include "core/base/options.h"
#include "core/os/kernel/calls.h"
#include "core/os/runtime/asymmetric_lock.h"
#include "core/pages/page_heap/page_heap.h"
#include "core/pages/span/memory_account.h"
#include "core/pages/span/span.h"

namespace seemalloc::heap {

using pages::Span;

// The most bytes that all threads together may keep: thread_cache, or less if memory is scarce. A
// collection compares it with the bytes on lists of available spans; current spans and thread free
// lists are not counted.
inline size_t thread_cache_budget() {
  size_t budget = options::get(options::Id::thread_cache);
  return budget < pages::max_cached_bytes() ? budget : pages::max_cached_bytes();
}

// The most bytes that one thread may keep; and the clock, in half purge delays.
extern std::atomic<size_t> large_cache_limit_bytes SEEMALLOC_HIDDEN;
extern std::atomic<uint32_t> large_cache_epoch SEEMALLOC_HIDDEN;

class LargeCache {
 public:
  // Called by the owner. Returns a span of `page_count` pages, with its old contents; null if there
  // is none.
  // Requires: 1 ≤ page_count ≤ kMaxRegionRunPages.
  SEEMALLOC_ALWAYS_INLINE Span* take(size_t page_count) {
    if (SEEMALLOC_UNLIKELY(!lock_.try_lock_owner())) return nullptr;
    Span* span = last_;
    if (span != nullptr && span->bytes == page_count << kPageShift) {
      set_last(nullptr);
      count_taken(span);
    } else {
      span = take_first(page_count);
    }
    lock_.unlock_owner();
    return span;
  }
  // Called when take() has returned null: returns a span that is longer by at most an eighth, or
  // null.
  Span* take_larger(size_t page_count);
  // Keeps a kLarge span. Returns false if there is no space for it.
  SEEMALLOC_ALWAYS_INLINE bool put(Span* span) {
    if (SEEMALLOC_UNLIKELY(!lock_.try_lock_owner())) return false;
    size_t bytes = bytes_ + span->bytes;
    bool fits = bytes <= large_cache_limit_bytes.load(std::memory_order_relaxed);
    if (SEEMALLOC_LIKELY(fits)) push(span, bytes);
    lock_.unlock_owner();
    return fits;
  }
  // Keeps the span and releases others to make space. Returns false if the span must not be kept.
  bool put_evicting(Span* span);

  // Releases spans to the page heap: those that were put before `epoch`, or all.
  // Called by the owner:
  void flush();
  // Called by another thread; does nothing if the owner is busy:
  void flush_idle(uint32_t epoch);
  // In a forked child: the thread that was inside is gone.
  void reset();

  // The owner's. The broken invariant, or null (verify.cc). 1: each list has cached spans of its
  // size, and its bit in filled_; bytes() is the sum.
  const char* verify();
  size_t bytes() const { return __atomic_load_n(&bytes_, __ATOMIC_RELAXED); }

 private:
  SEEMALLOC_ALWAYS_INLINE Span* take_first(size_t pages) {
    Span* span = lists_[pages];
    if (SEEMALLOC_UNLIKELY(span == nullptr)) return nullptr;
    DCHECK(span->bytes == pages << kPageShift);
    set_list(pages, span->next);
    count_taken(span);
    return span;
  }
  SEEMALLOC_ALWAYS_INLINE void count_taken(Span* span) {
    DCHECK(span->kind == pages::SpanKind::kCachedLarge && bytes_ >= span->bytes);
    set_bytes(bytes_ - span->bytes);
    span->kind = pages::SpanKind::kLarge;
  }
  SEEMALLOC_ALWAYS_INLINE void push(Span* span, size_t bytes_then) {
    DCHECK(span->kind == pages::SpanKind::kLarge && bytes_then == bytes_ + span->bytes);
    span->kind = pages::SpanKind::kCachedLarge;
    span->cached_epoch = large_cache_epoch.load(std::memory_order_relaxed);
    set_bytes(bytes_then);
    if (last_ != nullptr) push_on_list(last_);
    set_last(span);
  }
  SEEMALLOC_ALWAYS_INLINE void push_on_list(Span* span) {
    size_t pages = span->bytes >> kPageShift;
    DCHECK(span->kind == pages::SpanKind::kCachedLarge && pages != 0 && pages < kLists);
    span->next = lists_[pages];
    filled_[pages / 64] |= uint64_t{1} << (pages % 64);
    set_list(pages, span);
  }
  void push_last_on_list() {
    if (last_ != nullptr) push_on_list(last_);
    set_last(nullptr);
  }
  SEEMALLOC_ALWAYS_INLINE void set_last(Span* span) {
    __atomic_store_n(&last_, span, __ATOMIC_RELEASE);
  }
  SEEMALLOC_ALWAYS_INLINE void set_list(size_t pages, Span* first) {
    __atomic_store_n(&lists_[pages], first, __ATOMIC_RELEASE);
  }
  SEEMALLOC_ALWAYS_INLINE void set_bytes(size_t bytes) {
    __atomic_store_n(&bytes_, bytes, __ATOMIC_RELAXED);
  }
  // The first list at or above `pages` that has a span; kLists if there is none.
  size_t next_filled(size_t pages);
  void evict(size_t bytes, size_t limit);
  void flush_before(uint32_t epoch);
  void release_before(size_t pages, uint32_t epoch);

  static constexpr size_t kLists = pages::kMaxRegionRunPages + 1;

  AsymmetricLock lock_;
  uint16_t victim_ = 0;  // the list to take spans from next when there is no space
  size_t bytes_ = 0;
  // The span freed last, on no list yet: most often it is the next one requested.
  Span* last_ = nullptr;
  // Which lists may have a span: a bit stays set until the list is found empty.
  uint64_t filled_[kLists / 64 + 1] = {};
  Span* lists_[kLists] = {};  // by number of pages
};

// Sets how much each of `threads` threads may keep. Called when a thread gets its heap, and at
// every tick.
void set_large_cache_limits(unsigned threads);

}  // namespace seemalloc::heap

// LargeCache: large spans that a thread has just freed, for its next requests of about the same size.
//
// A program that allocates and frees a buffer at once would otherwise take the page heap's lock and write the page map
// for each of its pages, both ways. Bounded by bytes and slots; what stays unused for a purge delay goes to the page heap.
// Who calls: core/api's slow paths and, for idle threads, whoever ticks.
// Threads: the owner between enter and leave of `lock`, another thread between try_close and open. A slot is taken and
// filled by one store each, so that in a forked child every slot is one or the other.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "core/os/asymmetric_lock.h"
#include "core/pages/span.h"

namespace seemalloc::heap {

using pages::Span;

// What one thread may keep, and the time in half purge delays.
extern std::atomic<size_t> large_limit_bytes;
extern std::atomic<uint32_t> large_epoch;

class LargeCache {
 public:
  static constexpr unsigned kSlots = 8;

  // The owner's. A span of at least `page_count` pages, and at most an eighth more; its contents are what they were.
  SEEMALLOC_ALWAYS_INLINE Span* take(size_t page_count) {
    if (!lock_.enter()) return nullptr;
    Span* span = spans_[last_];
    if (SEEMALLOC_LIKELY(span != nullptr && span->bytes == page_count << kPageShift)) {
      take_slot(last_);
    } else {
      span = take_any(page_count);
    }
    lock_.leave();
    return span;
  }
  // Keeps a kLarge span; false when it is not to be kept.
  SEEMALLOC_ALWAYS_INLINE bool put(Span* span) {
    size_t limit = large_limit_bytes.load(std::memory_order_relaxed);
    if (span->bytes > limit / 2 || !lock_.enter()) return false;
    if (SEEMALLOC_UNLIKELY(spans_[last_] != nullptr || bytes_ + span->bytes > limit)) make_room(span->bytes, limit);
    fill_slot(last_, span);
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
  SEEMALLOC_ALWAYS_INLINE void take_slot(unsigned slot) {
    Span* span = spans_[slot];
    spans_[slot] = nullptr;
    set_bytes(bytes_ - span->bytes);
    span->kind = pages::SpanKind::kLarge;
  }
  SEEMALLOC_ALWAYS_INLINE void fill_slot(unsigned slot, Span* span) {
    span->kind = pages::SpanKind::kCachedLarge;
    span->known_zero = false;
    epochs_[slot] = large_epoch.load(std::memory_order_relaxed);
    set_bytes(bytes_ + span->bytes);
    spans_[slot] = span;
  }
  SEEMALLOC_NOINLINE Span* take_any(size_t page_count);
  // Makes last_ an empty slot, and the bytes fit.
  SEEMALLOC_NOINLINE void make_room(size_t bytes, size_t limit);
  void flush_before(uint32_t epoch);
  void drop(unsigned slot);
  SEEMALLOC_ALWAYS_INLINE void set_bytes(size_t bytes) { __atomic_store_n(&bytes_, bytes, __ATOMIC_RELAXED); }

  AsymmetricLock lock_;
  unsigned last_ = 0;    // the slot used last: where a malloc after a free looks first
  unsigned victim_ = 0;  // the slot to empty next when there is no room
  size_t bytes_ = 0;
  Span* spans_[kSlots] = {};
  uint32_t epochs_[kSlots] = {};
};

// Sets how much each of so many threads may keep. Called when a thread gets its heap and at every tick.
void share_large_budget(unsigned threads);

// Gives large spans that idle threads keep, and pages that have been free for a while, back when it is time. Cheap when it
// is not: reads a clock. Requires: no lock held (it makes system calls).
void tick();
// Gives every free page back now, other threads' cached large spans included. Returns bytes given back to the system.
size_t purge_all();

}  // namespace seemalloc::heap

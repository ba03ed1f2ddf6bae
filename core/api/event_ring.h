// A bounded ring of events: many threads write, readers each keep their own place, the oldest are overwritten.
//
// Writers never wait: a writer that would have to, because another one is still busy with the slot a lap behind, drops its
// event. Readers notice what was overwritten before they came, and how much.
// Protocol: a slot's state is 2·position + 1 while the event of that position is being written, and one more once it is
// there; `head_` follows, moved on by whoever finds the slot taken. Words are written by releases and read by acquires
// between two looks at the state, so that a reader who sees a word of a later event sees the later state too.
// Lies in zeroed memory of its own, bytes() large. Threads: any; a place by one at a time. Signal handlers may write.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "core/base/compiler.h"
#include "core/base/units.h"

namespace seemalloc {

struct TraceEvent {
  static constexpr unsigned kMaxFrames = 32;

  uint64_t begin_ns;
  uint64_t took_ns;
  uint64_t bytes;
  uint32_t thread;
  uint8_t call, reason, size_class;
  bool refused;
  uint64_t depth;  // valid entries of frames
  uintptr_t frames[kMaxFrames];
};

class EventRing {
 public:
  static constexpr unsigned kSlots = 4096;

  EventRing() = delete;
  static constexpr size_t bytes() { return sizeof(EventRing); }

  // False: dropped.
  bool put(const TraceEvent& event) {
    for (;;) {
      uint64_t position = head_.load(std::memory_order_acquire);
      Slot& slot = slots_[position % kSlots];
      uint64_t state = slot.state.load(std::memory_order_acquire);
      if (state == 2 * position + 1 || state == 2 * position + 2) {
        head_.compare_exchange_strong(position, position + 1, std::memory_order_acq_rel);
        continue;
      }
      if (state > 2 * position) continue;  // the head has gone on
      bool busy = state % 2 == 1;
      if (!busy && !slot.state.compare_exchange_strong(state, 2 * position + 1, std::memory_order_acq_rel)) continue;
      if (busy) {
        dropped_.fetch_add(1, std::memory_order_relaxed);
        return false;
      }
      head_.compare_exchange_strong(position, position + 1, std::memory_order_acq_rel);
      write(slot, event);
      slot.state.fetch_add(1, std::memory_order_release);
      return true;
    }
  }
  // An event that its writer could not even bring here.
  void drop() { dropped_.fetch_add(1, std::memory_order_relaxed); }

  // Where the next event will be.
  uint64_t head() const { return head_.load(std::memory_order_acquire); }
  uint64_t dropped() const { return dropped_.load(std::memory_order_relaxed); }

  // The event at *place, which goes on by one; false when there is none yet. What was overwritten is passed over and
  // counted in *lost.
  bool read(uint64_t* place, TraceEvent* event, uint64_t* lost) const {
    for (;;) {
      uint64_t end = head();
      if (*place == end) return false;
      if (end - *place > kSlots) {
        *lost += end - kSlots - *place;
        *place = end - kSlots;
      }
      const Slot& slot = slots_[*place % kSlots];
      uint64_t state = slot.state.load(std::memory_order_acquire);
      if (state <= 2 * *place + 1) return false;  // being written
      bool whole = state == 2 * *place + 2;
      if (whole) {
        read_words(slot, event);
        whole = slot.state.load(std::memory_order_acquire) == state;
      }
      ++*place;
      if (whole) return true;
      ++*lost;
    }
  }

 private:
  static constexpr unsigned kWords = sizeof(TraceEvent) / sizeof(uint64_t);
  static_assert(sizeof(TraceEvent) == kWords * sizeof(uint64_t));

  struct alignas(kCacheLineBytes) Slot {
    std::atomic<uint64_t> state;
    std::atomic<uint64_t> words[kWords];
  };

  static unsigned words_used(uint64_t depth) { return static_cast<unsigned>(kWords - TraceEvent::kMaxFrames + depth); }

  static void write(Slot& slot, const TraceEvent& event) {
    uint64_t words[kWords];
    __builtin_memcpy(words, &event, sizeof(words));
    for (unsigned i = 0; i < words_used(event.depth); i++) slot.words[i].store(words[i], std::memory_order_release);
  }
  static void read_words(const Slot& slot, TraceEvent* event) {
    uint64_t words[kWords];
    for (unsigned i = 0; i < kWords; i++) words[i] = slot.words[i].load(std::memory_order_acquire);
    __builtin_memcpy(event, words, sizeof(words));
    if (event->depth > TraceEvent::kMaxFrames) event->depth = 0;  // torn: the caller's look at the state will say so
  }

  alignas(kCacheLineBytes) std::atomic<uint64_t> head_;
  std::atomic<uint64_t> dropped_;
  Slot slots_[kSlots];
};

}  // namespace seemalloc

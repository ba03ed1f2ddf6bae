// A bounded ring of events: many threads write, readers each keep their own position, the oldest
// events are overwritten.
//
// Writers never wait: a writer that would have to, because another one is still writing to the slot
// one lap behind, drops its event. Readers detect how many events were overwritten before they were
// read.
// Protocol:
// 1. A slot's state is 2·position + 1 while the event of that position is being written, and
//    2·position + 2 once it is complete.
// 2. `head_` follows: any thread that finds the slot at the head claimed advances it.
// 3. Words are stored with release and loaded with acquire between two loads of the state, so a
//    reader that sees a word of a later event also sees the later state.
// The ring is in zeroed memory of its own, of bytes().
// Threads: any; a position is used by one thread at a time. Signal handlers may write.
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

  // False: the event is dropped.
  bool put(const TraceEvent& event) {
    for (;;) {
      uint64_t position = head_.load(std::memory_order_acquire);
      Slot& slot = slots_[position % kSlots];
      uint64_t state = slot.state.load(std::memory_order_acquire);
      if (state == 2 * position + 1 || state == 2 * position + 2) {
        head_.compare_exchange_strong(position, position + 1, std::memory_order_acq_rel);
        continue;
      }
      if (state > 2 * position) continue;  // the head has advanced
      bool busy = state % 2 == 1;
      if (!busy &&
          !slot.state.compare_exchange_strong(state, 2 * position + 1, std::memory_order_acq_rel))
        continue;
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
  // Counts an event that its writer could not record.
  void drop() { dropped_.fetch_add(1, std::memory_order_relaxed); }

  // The position of the next event.
  uint64_t head() const { return head_.load(std::memory_order_acquire); }
  uint64_t dropped() const { return dropped_.load(std::memory_order_relaxed); }

  // Reads the event at *place and advances *place; false when there is none yet. Overwritten events
  // are skipped and counted in *lost.
  bool read(uint64_t* position, TraceEvent* event, uint64_t* lost) const {
    for (;;) {
      uint64_t end = head();
      if (*position == end) return false;
      if (end - *position > kSlots) {
        *lost += end - kSlots - *position;
        *position = end - kSlots;
      }
      const Slot& slot = slots_[*position % kSlots];
      uint64_t state = slot.state.load(std::memory_order_acquire);
      if (state <= 2 * *position + 1) return false;  // being written
      bool whole = state == 2 * *position + 2;
      if (whole) {
        read_words(slot, event);
        whole = slot.state.load(std::memory_order_acquire) == state;
      }
      ++*position;
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

  static unsigned words_used(uint64_t depth) {
    return static_cast<unsigned>(kWords - TraceEvent::kMaxFrames + depth);
  }

  static void write(Slot& slot, const TraceEvent& event) {
    uint64_t words[kWords];
    __builtin_memcpy(words, &event, sizeof(words));
    for (unsigned i = 0; i < words_used(event.depth); i++)
      slot.words[i].store(words[i], std::memory_order_release);
  }
  static void read_words(const Slot& slot, TraceEvent* event) {
    uint64_t words[kWords];
    for (unsigned i = 0; i < kWords; i++) words[i] = slot.words[i].load(std::memory_order_acquire);
    __builtin_memcpy(event, words, sizeof(words));
    // torn: the caller's check of the state will detect it.
    if (event->depth > TraceEvent::kMaxFrames) event->depth = 0;
  }

  alignas(kCacheLineBytes) std::atomic<uint64_t> head_;
  std::atomic<uint64_t> dropped_;
  Slot slots_[kSlots];
};

}  // namespace seemalloc

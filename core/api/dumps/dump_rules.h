// DumpRules: when an automatic heap profile is due. Without clock and files: the caller passes in
// events and gets the due reasons back.
//
// Threads: any; each time a dump becomes due, exactly one caller is told.
// Rules, which dump_rules_test compares with a model:
//   1. allocated: due each time at least the interval has been allocated since it was last due.
//   2. in use, growth: due each time the bytes in use, or of the heap, are at least the interval
//      above the value when it was last due; never when they shrink.
//   3. time: due every interval; once, if it was missed by more than an interval (a process that
//      was stopped).
//   4. A new interval counts from the moment when it is set; 0 is never.
#pragma once

#include <atomic>
#include <cstdint>

namespace seemalloc {

// Why a profile is written. This file determines the first four.
enum class DumpReason : unsigned {
  kAllocated,
  kInUse,
  kGrowth,
  kTime,
  kFailure,
  kSignal,
  kRequested,
  kExit
};
inline constexpr unsigned kDumpReasons = 8;
constexpr unsigned dump_bit(DumpReason reason) { return 1u << static_cast<unsigned>(reason); }

class DumpRules {
 public:
  // Each returns the bit of its reason if a dump is due, else 0.
  unsigned on_allocated(uint64_t bytes) {
    if (allocated_.is_off()) return 0;
    uint64_t total = total_.fetch_add(bytes, std::memory_order_relaxed) + bytes;
    return allocated_.cross(total) ? dump_bit(DumpReason::kAllocated) : 0;
  }
  unsigned on_live_bytes(uint64_t bytes) {
    return in_use_.cross(bytes) ? dump_bit(DumpReason::kInUse) : 0;
  }
  unsigned on_heap_bytes(uint64_t bytes) {
    return growth_.cross(bytes) ? dump_bit(DumpReason::kGrowth) : 0;
  }
  unsigned on_time(uint64_t now_ns) {
    uint64_t due = time_.due();
    uint64_t next = due + time_.interval();
    return time_.cross(now_ns, now_ns < next ? due : now_ns) ? dump_bit(DumpReason::kTime) : 0;
  }

  void set_alloc_interval(uint64_t bytes) {
    allocated_.set(bytes, total_.load(std::memory_order_relaxed));
  }
  void set_inuse_interval(uint64_t bytes, uint64_t in_use_bytes) {
    in_use_.set(bytes, in_use_bytes);
  }
  void set_growth_interval(uint64_t bytes, uint64_t heap_bytes) { growth_.set(bytes, heap_bytes); }
  void set_time_interval(uint64_t ns, uint64_t now_ns) { time_.set(ns, now_ns); }

  bool any() const {
    return !allocated_.is_off() || !in_use_.is_off() || !growth_.is_off() || !time_.is_off();
  }
  // UINT64_MAX: never.
  uint64_t next_time_ns() const { return time_.due(); }

 private:
  // A threshold that moves by an interval each time it is passed.
  class Threshold {
   public:
    bool is_off() const { return due() == kNever; }
    uint64_t due() const { return due_.load(std::memory_order_relaxed); }
    uint64_t interval() const { return interval_.load(std::memory_order_relaxed); }
    void set(uint64_t interval, uint64_t from) {
      interval_.store(interval, std::memory_order_relaxed);
      due_.store(interval != 0 ? add(from, interval) : kNever, std::memory_order_relaxed);
    }
    bool cross(uint64_t at) { return cross(at, at); }
    // Sets the next threshold an interval above `from`. True for exactly one of the threads that
    // find the threshold passed.
    bool cross(uint64_t at, uint64_t from) {
      uint64_t due = due_.load(std::memory_order_relaxed);
      while (due != kNever && at >= due) {
        if (due_.compare_exchange_weak(due, add(from, interval()), std::memory_order_relaxed))
          return true;
      }
      return false;
    }

   private:
    static constexpr uint64_t kNever = UINT64_MAX;
    static uint64_t add(uint64_t a, uint64_t b) {
      uint64_t sum = a + b;
      return sum < a || sum == kNever ? kNever - 1 : sum;
    }
    std::atomic<uint64_t> interval_{0}, due_{kNever};
  };

  std::atomic<uint64_t> total_{0};
  Threshold allocated_, in_use_, growth_, time_;
};

}  // namespace seemalloc

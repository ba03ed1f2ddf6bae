// Lifetimes: how long freed blocks lived: a histogram by powers of ten, mean, deviation, minimum
// and maximum. There is one for each bucket and way of being freed (FreedBy), made at its first use
// (128 bytes).
//
// Threads: one thread calls add_single_writer(), any thread calls add(); the two are never mixed on
// one object (a signal handler that interrupts add_single_writer() may cause one count to be lost).
// Any thread may read; each figure is correct at some moment.
// A count is incremented last, with release: a reader that has loaded it (acquire) finds the ages
// that it counts in the other figures.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "core/base/compiler.h"

namespace seemalloc::profile {

// Age classes: under 1 µs, under 10 µs, …, under 1000 s, and longer.
inline constexpr unsigned kAgeClasses = 11;
// The exclusive upper bound of each class; UINT64_MAX for the last.
inline constexpr uint64_t kAgeClassEndsNs[kAgeClasses] = {
    1'000,         10'000,         100'000,         1'000'000,         10'000'000, 100'000'000,
    1'000'000'000, 10'000'000'000, 100'000'000'000, 1'000'000'000'000, UINT64_MAX};
// For example "1ms to 10ms".
const char* age_class_name(unsigned age_class);
inline unsigned age_class_of(uint64_t ns) {
  unsigned c = 0;
  while (c + 1 < kAgeClasses && ns >= kAgeClassEndsNs[c]) c++;
  return c;
}

// A block that lived less than this is short-lived. The coarse clock, which is used when every
// block is recorded, cannot resolve shorter lives.
inline constexpr uint64_t kShortLifeNs = 10'000'000;
inline constexpr unsigned kShortClasses = 5;  // number of age classes below it
static_assert(kAgeClassEndsNs[kShortClasses - 1] == kShortLifeNs);

struct FreeStack;

class Lifetimes {
 public:
  void add_single_writer(uint64_t ns) {
    // Freed within one tick of the coarse clock: the common case when every block is recorded.
    if (ns == 0) {
      inverted_min_.store(UINT64_MAX, std::memory_order_relaxed);
      increment_single_writer(0);
      return;
    }
    add_nonzero_single_writer(ns);
  }
  void add(uint64_t ns);

  uint64_t count(unsigned age_class) const {
    return counts_[age_class].load(std::memory_order_acquire);
  }
  uint64_t count() const;
  // Meaningful only if count() ≠ 0.
  uint64_t min_ns() const { return ~inverted_min_.load(std::memory_order_acquire); }
  uint64_t max_ns() const { return max_.load(std::memory_order_acquire); }
  double sum_ns() const { return sum_.load(std::memory_order_acquire); }
  double sum_of_squares() const { return squares_.load(std::memory_order_acquire); }  // ns²

  // Resets the record to empty. Values that other threads add meanwhile may survive in part.
  // Release: a reader that loads any reset value (acquire) sees all that was written before.
  void clear();

  // The stacks that freed the blocks: free_stacks.h.
  FreeStack* free_stacks() const { return deaths_.load(std::memory_order_acquire); }
  // Replaces the list's head *first by `fresh`. Returns false, with the current head in *first, if
  // the head has changed.
  bool push_free_stack(FreeStack** first, FreeStack* fresh) {
    return deaths_.compare_exchange_strong(*first, fresh, std::memory_order_acq_rel,
                                           std::memory_order_acquire);
  }

 private:
  friend struct FullLifetimes;  // for a test, which cannot wait for 2^32 frees
  SEEMALLOC_NOINLINE void add_nonzero_single_writer(uint64_t ns);
  void increment_single_writer(unsigned age_class) {
    counts_[age_class].store(counts_[age_class].load(std::memory_order_relaxed) + 1,
                             std::memory_order_release);
  }

  // 64 bits: if every block is recorded, 2^32 frees take only minutes.
  std::atomic<uint64_t> counts_[kAgeClasses] = {};
  std::atomic<double> sum_{0}, squares_{0};
  std::atomic<uint64_t> max_{0};
  // Inverted, so that zeroed memory means "no minimum yet".
  std::atomic<uint64_t> inverted_min_{0};
  std::atomic<FreeStack*> deaths_{nullptr};
};
static_assert(sizeof(Lifetimes) == 128);

// How a block was freed.
enum class FreedBy : unsigned {
  kBucketOwner,  // the thread that allocated it and made the bucket: add_single_writer()
  kSameThread,   // the thread that allocated it
  kOtherThread,  // another thread
};
inline constexpr FreedBy kFreedBys[] = {FreedBy::kBucketOwner, FreedBy::kSameThread,
                                        FreedBy::kOtherThread};

}  // namespace seemalloc::profile

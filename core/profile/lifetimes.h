// How long freed blocks have lived: the count per power of ten, mean, deviation, least and most. One for each bucket and way
// of being freed, made when it is first needed (128 bytes).
//
// Threads: add_alone() is one thread's, add() anybody's, never mixed on one object (a signal handler of that thread may lose one); readers any, each figure right at some moment.
// A count is raised last, with release: who has read it (acquire) finds the ages that it counts in the other figures.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "core/base/compiler.h"

namespace seemalloc::profile {

// Classes of age: under 1 µs, under 10 µs, …, under 1000 s, and more.
inline constexpr unsigned kAgeClasses = 11;
// The least age that is not in the class; of the last UINT64_MAX.
inline constexpr uint64_t kAgeClassEnds_ns[kAgeClasses] = {
    1'000,         10'000,         100'000,         1'000'000,         10'000'000, 100'000'000,
    1'000'000'000, 10'000'000'000, 100'000'000'000, 1'000'000'000'000, UINT64_MAX};
// "1ms to 10ms".
const char* age_class_name(unsigned age_class);
inline unsigned age_class_of(uint64_t ns) {
  unsigned c = 0;
  while (c + 1 < kAgeClasses && ns >= kAgeClassEnds_ns[c]) c++;
  return c;
}

// What died younger than this is short-lived. The coarse clock, which blocks that are all recorded are timed with, can tell no less.
inline constexpr uint64_t kShortLife_ns = 10'000'000;
inline constexpr unsigned kShortClasses = 5;  // so many age classes end before it
static_assert(kAgeClassEnds_ns[kShortClasses - 1] == kShortLife_ns);

struct Death;

class Lifetimes {
 public:
  void add_alone(uint64_t ns) {
    // Within one tick of the coarse clock: most, where every block is recorded.
    if (ns == 0) {
      inverted_least_.store(UINT64_MAX, std::memory_order_relaxed);
      raise_alone(0);
      return;
    }
    add_aged_alone(ns);
  }
  void add(uint64_t ns);

  uint64_t count(unsigned age_class) const { return counts_[age_class].load(std::memory_order_acquire); }
  uint64_t count() const;
  // Of something: count() ≠ 0.
  uint64_t least_ns() const { return ~inverted_least_.load(std::memory_order_acquire); }
  uint64_t most_ns() const { return most_.load(std::memory_order_acquire); }
  double sum_ns() const { return sum_.load(std::memory_order_acquire); }
  double sum_of_squares() const { return squares_.load(std::memory_order_acquire); }  // ns²

  // Nothing has been freed yet. What others add meanwhile may stay, in parts. Release: who reads any of it (acquire) sees what came before.
  void clear();

  // Where they died: deaths.h.
  Death* deaths() const { return deaths_.load(std::memory_order_acquire); }
  // False, with the first as it is by now in *first, unless it was *first.
  bool put_death(Death** first, Death* fresh) {
    return deaths_.compare_exchange_strong(*first, fresh, std::memory_order_acq_rel, std::memory_order_acquire);
  }

 private:
  friend struct FullLifetimes;  // a test's: no test can wait for 2^32 frees
  SEEMALLOC_NOINLINE void add_aged_alone(uint64_t ns);
  void raise_alone(unsigned age_class) {
    counts_[age_class].store(counts_[age_class].load(std::memory_order_relaxed) + 1, std::memory_order_release);
  }

  // Everything recorded, 2^32 frees take minutes.
  std::atomic<uint64_t> counts_[kAgeClasses] = {};
  std::atomic<double> sum_{0}, squares_{0};
  std::atomic<uint64_t> most_{0};
  std::atomic<uint64_t> inverted_least_{0};  // so that memory of zeros has none
  std::atomic<Death*> deaths_{nullptr};
};
static_assert(sizeof(Lifetimes) == 128);

// By whom a block was freed.
enum class FreedBy : unsigned {
  kOwner,    // the thread that allocated it and made the bucket: add_alone()
  kSame,     // the thread that allocated it
  kAnother,  // another thread
};
inline constexpr FreedBy kFreedBys[] = {FreedBy::kOwner, FreedBy::kSame, FreedBy::kAnother};

}  // namespace seemalloc::profile

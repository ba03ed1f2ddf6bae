// PageBits: a set of the pages of one region: 256 bits, with the run searches that the page heap
// needs.
//
// Pure data; the owner's lock protects it. The cost of every operation is bounded by the 4 words or
// by the number of runs.
#pragma once

#include <cstdint>

#include "core/base/check.h"
#include "core/base/units.h"

namespace seemalloc::pages {

class PageBits {
 public:
  static constexpr unsigned kWords = kPagesPerRegion / 64;
  static_assert(kWords * 64 == kPagesPerRegion);

  void set(unsigned first, unsigned count) {
    for_words(first, count, [this](unsigned word, uint64_t mask) { words_[word] |= mask; });
  }
  void clear(unsigned first, unsigned count) {
    for_words(first, count, [this](unsigned word, uint64_t mask) { words_[word] &= ~mask; });
  }
  bool any(unsigned first, unsigned count) const {
    uint64_t found = 0;
    for_words(first, count,
              [this, &found](unsigned word, uint64_t mask) { found |= words_[word] & mask; });
    return found != 0;
  }
  bool test(unsigned page) const {
    DCHECK(page < kPagesPerRegion);
    return (words_[page / 64] >> (page % 64)) & 1;
  }
  bool empty() const { return (words_[0] | words_[1] | words_[2] | words_[3]) == 0; }
  unsigned count() const {
    unsigned total = 0;
    for (uint64_t word : words_) total += static_cast<unsigned>(__builtin_popcountll(word));
    return total;
  }

  unsigned count(unsigned first, unsigned count) const {
    unsigned total = 0;
    for_words(first, count, [this, &total](unsigned word, uint64_t mask) {
      total += static_cast<unsigned>(__builtin_popcountll(words_[word] & mask));
    });
    return total;
  }

  // Finds the next run of set (or clear) pages at or after `from`. Returns false when there is
  // none.
  bool next_run(bool set, unsigned from, unsigned* first, unsigned* length) const {
    unsigned start = find(set, from);
    if (start == kPagesPerRegion) return false;
    *first = start;
    *length = find(!set, start) - start;
    return true;
  }

  // Calls f(first, length) for each run of clear pages, in order. Cost: two steps per run, whatever
  // its length.
  template <typename F>
  void for_each_clear_run(F f) const {
    uint64_t before = 0;  // whether the page before the word is clear
    unsigned first = 0;
    bool inside = false;
    for (unsigned word = 0; word < kWords; word++) {
      uint64_t clear = ~words_[word];
      uint64_t edges = clear ^ (clear << 1 | before);
      before = clear >> 63;
      for (; edges != 0; edges &= edges - 1, inside = !inside) {
        unsigned page = word * 64 + static_cast<unsigned>(__builtin_ctzll(edges));
        if (inside) f(first, page - first);
        first = page;
      }
    }
    if (inside) f(first, kPagesPerRegion - first);
  }

  // Length of the longest run of clear pages.
  unsigned longest_clear_run() const {
    unsigned longest = 0;
    for_each_clear_run(
        [&](unsigned, unsigned length) { longest = length > longest ? length : longest; });
    return longest;
  }

  // Length of the run of clear pages around a clear page, and of the run of set pages around a set
  // page.
  unsigned clear_run_around(unsigned page) const {
    DCHECK(!test(page));
    return find(true, page) - page_after_last(true, page);
  }
  unsigned set_run_around(unsigned page) const {
    DCHECK(test(page));
    return find(false, page) - page_after_last(false, page);
  }

  struct Fit {
    unsigned first;    // kPagesPerRegion when there is none
    unsigned longest;  // the longest remaining run of clear pages after this one is taken
  };
  // The first run of `count` clear pages that starts at a multiple of `alignment` pages.
  Fit find_clear(unsigned count, unsigned alignment) const {
    DCHECK(count != 0 && is_power_of_two(alignment));
    Fit fit{kPagesPerRegion, 0};
    auto leave = [&fit](unsigned length) {
      fit.longest = length > fit.longest ? length : fit.longest;
    };
    for_each_clear_run([&](unsigned first, unsigned length) {
      unsigned start = static_cast<unsigned>(round_up(first, alignment));
      if (fit.first != kPagesPerRegion || start + count > first + length) return leave(length);
      fit.first = start;
      leave(start - first);
      leave(first + length - start - count);
    });
    return fit;
  }

  PageBits& operator|=(const PageBits& other) {
    for (unsigned i = 0; i < kWords; i++) words_[i] |= other.words_[i];
    return *this;
  }
  PageBits& operator-=(const PageBits& other) {
    for (unsigned i = 0; i < kWords; i++) words_[i] &= ~other.words_[i];
    return *this;
  }

 private:
  template <typename F>
  static void for_words(unsigned first, unsigned count, F f) {
    unsigned end = first + count;
    DCHECK(end <= kPagesPerRegion);
    for (unsigned word = first / 64; word * 64 < end; word++) {
      unsigned low = word * 64 > first ? 0 : first - word * 64;
      unsigned high = end - word * 64 < 64 ? end - word * 64 : 64;
      uint64_t mask =
          (high == 64 ? ~uint64_t{0} : (uint64_t{1} << high) - 1) & ~((uint64_t{1} << low) - 1);
      f(word, mask);
    }
  }

  // First page at or after `from` with a bit equal to `set`; kPagesPerRegion when none.
  unsigned find(bool set, unsigned from) const {
    for (unsigned word = from / 64; word < kWords; word++) {
      uint64_t bits = set ? words_[word] : ~words_[word];
      if (word == from / 64) bits &= ~uint64_t{0} << (from % 64);
      if (bits != 0) return word * 64 + static_cast<unsigned>(__builtin_ctzll(bits));
    }
    return kPagesPerRegion;
  }

  // The page after the last page before `page` with a bit equal to `set`; 0 when none.
  unsigned page_after_last(bool set, unsigned page) const {
    for (unsigned word = page / 64 + 1; word-- > 0;) {
      uint64_t bits = set ? words_[word] : ~words_[word];
      if (word == page / 64) bits &= (uint64_t{1} << (page % 64)) - 1;
      if (bits != 0) return word * 64 + 64 - static_cast<unsigned>(__builtin_clzll(bits));
    }
    return 0;
  }

  uint64_t words_[kWords] = {};
};

}  // namespace seemalloc::pages

// How often a test does the same again: models on random operations, sums that must be right on average, profiles while
// threads run. The thread sanitizer makes it twenty times slower and needs no average to see a race: there each does a
// quarter; the other builds do all.
#pragma once

namespace seemalloc {

template <typename Number>
constexpr Number repetitions(Number all) {
#ifdef __SANITIZE_THREAD__
  return (all + 3) / 4;
#else
  return all;
#endif
}

}  // namespace seemalloc

// Number of repetitions in a test: models on random operations, sums that must be right on average,
// profiles while threads run. ThreadSanitizer makes tests twenty times slower and needs no average
// to see a race: under it each test does a quarter of the repetitions, in the other builds all.
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

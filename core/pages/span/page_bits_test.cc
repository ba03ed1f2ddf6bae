#include "core/pages/span/page_bits.h"

#include <gtest/gtest.h>

#include <bitset>
#include <random>

#include "core/base/seed_for_test.h"

namespace seemalloc::pages {
namespace {

using Model = std::bitset<kPagesPerRegion>;

unsigned model_find(const Model& model, unsigned count, unsigned alignment) {
  for (unsigned start = 0; start + count <= kPagesPerRegion; start += alignment) {
    unsigned i = 0;
    while (i < count && !model[start + i]) i++;
    if (i == count) return start;
  }
  return kPagesPerRegion;
}

unsigned model_longest(const Model& model) {
  unsigned longest = 0, run = 0;
  for (unsigned i = 0; i < kPagesPerRegion; i++) {
    run = model[i] ? 0 : run + 1;
    longest = std::max(longest, run);
  }
  return longest;
}

TEST(PageBits, AgreesWithABitset) {
  unsigned seed = seed_for_test();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  PageBits bits;
  Model model;
  for (int step = 0; step < 20000; step++) {
    unsigned first = random() % kPagesPerRegion;
    unsigned count = 1 + random() % (kPagesPerRegion - first);
    if (random() % 3 != 0) count = std::min(count, static_cast<unsigned>(1 + random() % 9));
    bool set = random() % 2;
    for (unsigned i = first; i < first + count; i++) model[i] = set;
    set ? bits.set(first, count) : bits.clear(first, count);
    ASSERT_EQ(bits.count(), model.count());
    ASSERT_EQ(bits.empty(), model.none());
    ASSERT_EQ(bits.longest_clear_run(), model_longest(model));
    unsigned want = 1 + random() % 64, alignment = 1u << random() % 6;
    PageBits::Fit fit = bits.find_clear(want, alignment);
    ASSERT_EQ(fit.first, model_find(model, want, alignment));
    Model after = model;
    for (unsigned i = 0; i < want && fit.first != kPagesPerRegion; i++) after[fit.first + i] = true;
    ASSERT_EQ(fit.longest, model_longest(after));
    unsigned probe = random() % kPagesPerRegion, length = 1 + random() % (kPagesPerRegion - probe);
    bool any = false;
    for (unsigned i = probe; i < probe + length; i++) any |= model[i];
    ASSERT_EQ(bits.any(probe, length), any);
    ASSERT_EQ(bits.test(probe), model[probe]);
    if (!model[probe]) {
      unsigned low = probe, high = probe;
      while (low > 0 && !model[low - 1]) low--;
      while (high < kPagesPerRegion && !model[high]) high++;
      ASSERT_EQ(bits.clear_run_around(probe), high - low);
    }
  }
}

}  // namespace
}  // namespace seemalloc::pages

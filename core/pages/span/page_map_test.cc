// The two-level map outside of the window: entries set and forgotten, against a model.
#include "core/pages/span/page_map.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

#include "core/base/seed_for_test.h"

namespace seemalloc::pages {
namespace {

constexpr uintptr_t kLow = uintptr_t{1} << 45;
constexpr size_t kLeafBytes = PageMap::kLeafEntries * kPageBytes;

TEST(PageMap, MatchesTheModelAfterRemovals) {
  static PageMap map;
  static Span spans[8];
  std::map<uintptr_t, Span*> model;
  unsigned seed = seed_for_test();
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  auto span_at = [](uintptr_t page) { return map.span_of(reinterpret_cast<void*>(page)); };
  // Boundaries of leaves, of mark words and of groups, and a few pages around each, so that
  // operations often hit the same entries.
  auto some_page = [&] {
    uintptr_t border =
        kLow + random() % 4 * kLeafBytes + (random() % 3) * (32 * MiB) + random() % 3 * (512 * KiB);
    return border + random() % 5 * kPageBytes;
  };
  for (int step = 0; step < 30000; step++) {
    uintptr_t start = some_page();
    if (random() % 4 != 0) {
      size_t bytes = (1 + random() % 80) * kPageBytes;
      Span* span = &spans[random() % 8];
      ASSERT_TRUE(map.reserve(start, bytes));
      map.set(start, bytes, span);
      for (uintptr_t page = start; page < start + bytes; page += kPageBytes) model[page] = span;
    } else {
      uintptr_t end = some_page();
      if (end <= start) continue;
      map.mark_foreign(start, end - start);
      model.erase(model.lower_bound(start), model.lower_bound(end));
    }
    for (int look = 0; look < 20; look++) {
      uintptr_t page = some_page();
      auto found = model.find(page);
      ASSERT_EQ(span_at(page), found != model.end() ? found->second : &foreign_span);
    }
  }
  for (auto& [page, span] : model) ASSERT_EQ(span_at(page), span);
  map.mark_foreign(kLow, 5 * kLeafBytes);  // the last leaf has no entries
  for (auto& [page, span] : model) ASSERT_EQ(span_at(page), &foreign_span);
}

}  // namespace
}  // namespace seemalloc::pages

// Retained address space of huge memory and its lookup tables, against models; seeds are printed.
#include "core/pages/huge/retained_space.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <vector>

#include "core/base/seed_for_test.h"
#include "core/pages/huge/mapped_range_edges.h"

namespace seemalloc::pages {
namespace {

TEST(AddressTable, AgreesWithAModel) {
  static AddressTable<int> table;
  std::map<uintptr_t, int> model;
  unsigned seed = seed_for_test();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  for (int step = 0; step < 200000; step++) {
    uintptr_t address = (1 + random() % 3000) << (random() % 2 != 0 ? 13 : 20);
    int* found = table.find(address);
    auto at = model.find(address);
    ASSERT_EQ(found != nullptr, at != model.end());
    if (found != nullptr) {
      ASSERT_EQ(*found, at->second);
    }
    if (random() % 2 != 0) {
      ASSERT_EQ(table.remove(address), at != model.end());
      model.erase(address);
    } else if (found == nullptr) {
      ASSERT_TRUE(table.insert(address, step));
      model[address] = step;
    }
    ASSERT_EQ(table.size(), model.size());
  }
}

constexpr uintptr_t kBase = uintptr_t{1} << 40;
uintptr_t at(size_t page) { return kBase + page * kPageBytes; }

// Number of runs of true.
size_t mapped_ranges_of(const std::vector<bool>& mapped) {
  size_t ranges = 0;
  for (size_t i = 0; i < mapped.size(); i++) ranges += mapped[i] && (i == 0 || !mapped[i - 1]);
  return ranges;
}

TEST(MappedRangeEdges, CountRangesAsAModelDoes) {
  static MappedRangeEdges edges;
  unsigned seed = seed_for_test();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  std::vector<bool> mapped(400);
  for (int step = 0; step < 20000; step++) {
    size_t first = 1 + random() % 380, end = first + 1 + random() % 12;
    bool all = true, none = true;
    for (size_t i = first; i < end; i++) (mapped[i] ? none : all) = false;
    if (!all && !none) continue;
    size_t before = mapped_ranges_of(mapped);
    bool splits = edges.unmap_splits_range(at(first), at(end));
    edges.toggle(at(first), at(end));
    for (size_t i = first; i < end; i++) mapped[i] = none;
    ASSERT_EQ(edges.count(), mapped_ranges_of(mapped));
    if (all) {
      ASSERT_EQ(splits, mapped_ranges_of(mapped) == before + 1);
    }
  }
}

// Records the retained pages and checks that none is retained twice.
class Model {
 public:
  static constexpr size_t kPages = 3000;
  bool all_are(size_t first, size_t pages, bool kept) const {
    for (size_t i = first; i < first + pages; i++) {
      if (kept_[i] != kept) return false;
    }
    return true;
  }
  void set(size_t first, size_t pages, bool kept) {
    ASSERT_TRUE(all_are(first, pages, !kept));
    for (size_t i = first; i < first + pages; i++) kept_[i] = kept;
    count_ += kept ? pages : -pages;
  }
  void take(const Range& range) {
    set((range.start - kBase) / kPageBytes, range.bytes / kPageBytes, false);
  }
  bool has(size_t page) const { return kept_[page]; }
  size_t bytes() const { return count_ * kPageBytes; }
  size_t longest() const {
    size_t longest = 0, length = 0;
    for (bool kept : kept_) longest = std::max(longest, length = kept ? length + 1 : 0);
    return longest;
  }
  size_t ranges() const { return mapped_ranges_of(kept_); }

 private:
  std::vector<bool> kept_ = std::vector<bool>(kPages);
  size_t count_ = 0;
};

TEST(RetainedSpace, AgreesWithAModel) {
  static RetainedSpace space;
  Model model;
  unsigned seed = seed_for_test();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  for (int step = 0; step < 50000; step++) {
    size_t page = 1 + random() % (Model::kPages - 100), pages = 1 + random() % 40;
    Range out{0, 0};
    switch (random() % 6) {
      case 0:
      case 1:
        if (!model.all_are(page, pages, false)) break;
        ASSERT_TRUE(space.put(Range{at(page), pages * kPageBytes}));
        model.set(page, pages, true);
        break;
      case 2: {
        size_t alignment = kPageBytes << random() % 4;
        if (space.take(pages * kPageBytes, alignment, &out)) {
          ASSERT_EQ(out.bytes, pages * kPageBytes);
          ASSERT_EQ(out.start % alignment, 0u);
          model.take(out);
        } else {
          ASSERT_LT(model.longest(), 2 * pages + alignment / kPageBytes)
              << "there is far more space than requested";
        }
        break;
      }
      case 3: {
        bool starts = model.has(page) && !model.has(page - 1) && model.all_are(page, pages, true);
        ASSERT_EQ(space.take_at(at(page), pages * kPageBytes), starts);
        if (starts) model.set(page, pages, false);
        break;
      }
      case 4:
        ASSERT_EQ(space.take_adjacent(at(page), &out), model.has(page) != model.has(page - 1));
        if (out.bytes != 0) model.take(out);
        break;
      default:
        if (random() % 10 != 0) break;
        ASSERT_EQ(space.take_largest(&out), model.bytes() != 0);
        ASSERT_GE(out.bytes / kPageBytes * 5 / 4 + 1, model.longest());
        if (out.bytes != 0) model.take(out);
    }
    ASSERT_EQ(space.bytes(), model.bytes());
    ASSERT_EQ(space.ranges(), model.ranges()) << "neighbours are one";
  }
}

}  // namespace
}  // namespace seemalloc::pages

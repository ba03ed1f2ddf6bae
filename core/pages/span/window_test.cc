#include "core/pages/span/window.h"

#include <gtest/gtest.h>
#include <string.h>
#include <sys/mman.h>

#include <algorithm>
#include <fstream>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "core/base/seed_for_test.h"
#include "core/os/kernel/fault.h"
#include "core/os/kernel/memory.h"
#include "core/pages/page_heap/page_heap.h"
#include "core/pages/span/page_map.h"
#include "core/pages/span/reserve.h"

namespace seemalloc::pages {
namespace {

void* at(uintptr_t address) { return reinterpret_cast<void*>(address); }
bool inside(const Window& w, uintptr_t address) { return w.page_of(at(address)) < w.pages(); }
Span* span_at(const Window& w, uintptr_t address) { return w.span_at(w.page_of(at(address))); }

// Each test has its own windows beside the process's. A window's place depends on the kernel's next
// mapping: each one is further down.
std::unique_ptr<Window> made() {
  auto reserve = [](size_t bytes) {
    return mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  };
  void* low = reserve(2 * GiB);
  EXPECT_NE(low, MAP_FAILED);
  while (reserve(kRegionBytes) > low) {  // gaps higher up
  }
  return std::make_unique<Window>();
}

bool map_foreign(uintptr_t address, size_t bytes) {
  return mmap(at(address), bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | 0x100000,
              -1, 0) == at(address);
}

size_t mappings_between(uintptr_t from, uintptr_t to) {
  std::ifstream maps("/proc/self/maps");
  size_t count = 0;
  for (std::string line; std::getline(maps, line);) {
    uintptr_t start = std::stoull(line, nullptr, 16);
    count += start >= from && start < to;
  }
  return count;
}

TEST(Window, NothingIsInsideBeforeTheFirstRegion) {
  auto w = made();
  int local = 0;
  for (uintptr_t p : {uintptr_t{0}, uintptr_t{1}, reinterpret_cast<uintptr_t>(&local),
                      ~uintptr_t{0} >> 16, ~uintptr_t{0}}) {
    EXPECT_FALSE(inside(*w, p));
    // Nor for a thread that sees the pages of a new window but not yet its base.
    EXPECT_GT(w->page_of(at(p)), size_t{1} << 48);
  }
}

TEST(Window, RegionsLieSideBySide) {
  auto w = made();
  uintptr_t first = w->map_region();
  ASSERT_NE(first, 0u);
  EXPECT_EQ(first % kRegionBytes, 0u);
  size_t before = mappings_between(first, first + GiB);
  for (size_t i = 1; i < 100; i++) {
    uintptr_t region = w->map_region();
    ASSERT_EQ(region, first + i * kRegionBytes);
    memset(at(region), 1, 100);
    EXPECT_EQ(span_at(*w, region), &free_span);
    EXPECT_EQ(span_at(*w, region + kRegionBytes - 1), &free_span);
  }
#ifndef __SANITIZE_THREAD__
  EXPECT_EQ(mappings_between(first, first + GiB), before) << "neighbours do not merge";
#endif
  EXPECT_EQ(w->pages(), 100 * kPagesPerRegion);
  EXPECT_LE(w->map_bytes(), 256 * KiB) << "the map grows with the used part";
}

TEST(Window, PointersAroundItAreOutside) {
  auto w = made();
  uintptr_t first = w->map_region();
  for (uintptr_t p :
       {uintptr_t{0}, uintptr_t{8}, first - 1, first - kPageBytes, first + kRegionBytes,
        first + 5 * kRegionBytes, ~uintptr_t{0} >> 16, ~uintptr_t{0}}) {
    EXPECT_FALSE(inside(*w, p)) << std::hex << p;
  }
  EXPECT_TRUE(inside(*w, first));
  EXPECT_TRUE(inside(*w, first + kRegionBytes - 1));
}

TEST(Window, AReturnedRegionIsForeignAndUsedAgain) {
  auto w = made();
  std::vector<uintptr_t> regions;
  for (int i = 0; i < 10; i++) regions.push_back(w->map_region());
  for (int i : {7, 2, 4}) {
    memset(at(regions[i]), 1, kRegionBytes);
    w->unmap_region(regions[i]);
    EXPECT_EQ(span_at(*w, regions[i]), &foreign_span);
    EXPECT_EQ(span_at(*w, regions[i] + kRegionBytes - 1), &foreign_span);
  }
  for (int i : {2, 4, 7}) {
    ASSERT_EQ(w->map_region(), regions[i]) << "the lowest comes first";
    EXPECT_EQ(*static_cast<char*>(at(regions[i] + 100)), 0);
  }
  EXPECT_EQ(w->map_region(), regions[9] + kRegionBytes);
}

TEST(Window, ForeignMappingsInsideAreSkipped) {
  auto w = made();
  uintptr_t first = w->map_region();
  uintptr_t second = w->map_region();
  w->unmap_region(first);
  // One in a hole, and one where the window would grow.
  uintptr_t taken[] = {first + 5 * kPageBytes, second + kRegionBytes + kPageBytes};
  for (uintptr_t address : taken) ASSERT_TRUE(map_foreign(address, kPageBytes));
  EXPECT_EQ(span_at(*w, taken[0]), &foreign_span);
  for (int i = 0; i < 2; i++) {
    EXPECT_EQ(w->map_region(), 0u);
    EXPECT_EQ(w->map_region(), 0u) << "not before it is told";
    w->skip_place();
  }
  EXPECT_EQ(w->map_region(), second + 2 * kRegionBytes);
  for (uintptr_t address : taken) EXPECT_EQ(span_at(*w, address), &foreign_span);
}

TEST(Window, ARegionThatMayNotBeUnmappedIsTheNextOne) {
  auto w = made();
  uintptr_t regions[4];
  for (uintptr_t& region : regions) region = w->map_region();
  memset(reinterpret_cast<void*>(regions[1]), 7, kRegionBytes);
  {
    os::FailCalls refuse(SYS_munmap, ENOMEM);
    w->unmap_region(regions[2]);
    w->unmap_region(regions[1]);
    EXPECT_EQ(refuse.refusals(), 2u);
  }
  EXPECT_EQ(span_at(*w, regions[1]), &foreign_span);
  EXPECT_EQ(os::resident_bytes(at(regions[1]), kRegionBytes), 0u);
  w->unmap_region(regions[0]);
  EXPECT_EQ(w->map_region(), regions[0]);
  {
    os::FailNewMappings refuse;
    for (uintptr_t region : {regions[1], regions[2]}) {
      ASSERT_EQ(w->map_region(), region);
      EXPECT_EQ(span_at(*w, region), &free_span);
      EXPECT_EQ(span_at(*w, region + kRegionBytes - kPageBytes), &free_span);
      const char* memory = reinterpret_cast<const char*>(region);
      EXPECT_EQ(std::count(memory, memory + kRegionBytes, 0), static_cast<ptrdiff_t>(kRegionBytes));
    }
    EXPECT_EQ(refuse.refusals(), 0u);
  }
  EXPECT_EQ(w->map_region(), regions[3] + kRegionBytes);
  // Its memory could not be purged: it must not be reused as a fresh region.
  {
    os::FailCalls refuse(SYS_munmap, ENOMEM);
    ASSERT_EQ(mlock(reinterpret_cast<void*>(regions[1]), kPageBytes), 0);
    w->unmap_region(regions[1]);
  }
  EXPECT_NE(w->map_region(), regions[1]);
}

TEST(Window, EndsBelowAHugeMappingOfOurs) {
  auto w = made();
  uintptr_t first = w->map_region();
  EXPECT_TRUE(w->has_entry(first + kPageBytes));
  EXPECT_FALSE(w->has_entry(first + 3 * kRegionBytes + 5 * kPageBytes));
  EXPECT_FALSE(w->has_entry(first - kPageBytes));
  EXPECT_NE(w->map_region(), 0u);
  EXPECT_NE(w->map_region(), 0u);
  EXPECT_EQ(w->map_region(), 0u) << "its entry is in the two-level map";
  EXPECT_EQ(w->pages(), 3 * kPagesPerRegion);
}

TEST(Window, IsNotPlacedAfterAnOutsideMapping) {
  auto w = made();
  {
    os::FailCalls refuse(SYS_mmap, ENOMEM);
    EXPECT_EQ(w->map_region(), 0u);
    EXPECT_FALSE(w->has_entry(uintptr_t{1} << 40));
  }
  EXPECT_EQ(w->map_region(), 0u);
}

TEST(Window, ARefusedFirstRegionIsTriedAgain) {
  for (unsigned skip = 0; skip < 4; skip++) {  // the probe, the map, the region
    auto w = made();
    {
      os::FailCalls refuse(SYS_mmap, ENOMEM, 1, skip);
      if (w->map_region() != 0) {
        EXPECT_EQ(refuse.refusals(), 0u);
      }
      EXPECT_EQ(w->map_region(), 0u);
    }
    EXPECT_NE(w->map_region(), 0u) << skip;
  }
}

// Against a set of regions, in random order: maps and unmaps, foreign mappings in holes and in
// front of the window, refusals.
TEST(Window, RandomOperationsAgreeWithAModel) {
  unsigned seed = seed_for_test();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  auto w = made();
  uintptr_t base = w->map_region();
  ASSERT_NE(base, 0u);
  std::set<size_t> ours{0};
  std::set<size_t> others;
  auto start = [&](size_t i) { return base + i * kRegionBytes; };
  for (int step = 0; step < 5000; step++) {
    unsigned action = random() % 100;
    size_t top = w->pages() / kPagesPerRegion;
    if (action < 45 && ours.size() < 200) {
      uintptr_t region;
      if (action < 5) {
        os::FailCalls refuse(SYS_mmap, ENOMEM);
        ASSERT_EQ(w->map_region(), 0u);
        continue;
      }
      while ((region = w->map_region()) == 0) w->skip_place();
      size_t i = (region - base) / kRegionBytes;
      ASSERT_TRUE(ours.insert(i).second);
      ASSERT_EQ(others.count(i), 0u);
      ASSERT_EQ(*static_cast<char*>(at(region)), 0);
      memset(at(region), 1, 8);
    } else if (action < 85 && !ours.empty()) {
      auto it = std::next(ours.begin(), random() % ours.size());
      w->unmap_region(start(*it));
      ours.erase(it);
    } else if (action < 90) {
      size_t i = random() % (top + 2);
      bool granted = map_foreign(start(i), kPageBytes);
      ASSERT_EQ(granted, ours.count(i) == 0 && others.count(i) == 0);
      if (granted) others.insert(i);
    } else if (!others.empty()) {
      auto it = std::next(others.begin(), random() % others.size());
      munmap(at(start(*it)), kPageBytes);
      others.erase(it);
    }
    size_t i = random() % (top + 2);
    uintptr_t p = start(i) + random() % kRegionBytes;
    ASSERT_EQ(inside(*w, p) && span_at(*w, p) != &foreign_span, ours.count(i) != 0);
  }
  for (size_t i : others) munmap(at(start(i)), kPageBytes);
}

// ---- the process's window, through the page heap ----

Span* take(size_t page_count) {
  Span* span = allocate_run(0, page_count, 1, SpanKind::kLarge);
  if (span != nullptr) publish(span);
  return span;
}

TEST(Reserve, MapsOutsideIfTheWindowIsBlocked) {
  // The first calls fill the existing room; then the place in front of the window is taken by a
  // foreign mapping.
  uintptr_t region = reserve_region();
  ASSERT_TRUE(window.contains(region));
  ASSERT_TRUE(map_foreign(region + kRegionBytes, kPageBytes));
  uintptr_t outside = reserve_region();
  ASSERT_NE(outside, 0u);
  EXPECT_FALSE(window.contains(outside));
  EXPECT_TRUE(page_map.reserve(outside, kRegionBytes));
  page_map.set_free(outside, kRegionBytes);
  EXPECT_EQ(page_map.span_of(at(outside)), &free_span);
  EXPECT_EQ(page_map.span_of(at(region + kRegionBytes)), &foreign_span);
  uintptr_t next = reserve_region();
  EXPECT_EQ(next, region + 2 * kRegionBytes) << "and continues behind it";
  unmap_region(outside);
  EXPECT_EQ(page_map.span_of(at(outside)), &foreign_span);
  munmap(at(region + kRegionBytes), kPageBytes);
  unmap_region(next);
  unmap_region(region);
  EXPECT_EQ(reserve_region(), region);
}

TEST(Reserve, EmptyRegionsGoBackAndComeAgain) {
  std::vector<Span*> spans;
  for (int i = 0; i < 20; i++) spans.push_back(take(kMaxRegionRunPages));
  std::set<uintptr_t> places;
  for (Span* span : spans) {
    EXPECT_TRUE(window.contains(span->start));
    places.insert(round_down(span->start, kRegionBytes));
    release(span);
  }
  size_t pages = window.pages();
  EXPECT_GE(unmap_empty_regions(), places.size() * kRegionBytes);
  for (uintptr_t place : places) EXPECT_EQ(page_map.span_of(at(place))->kind, SpanKind::kForeign);
  for (int i = 0; i < 20; i++) {
    spans[i] = take(kMaxRegionRunPages);
    EXPECT_EQ(page_map.span_of(at(spans[i]->start)), spans[i]);
  }
  EXPECT_EQ(window.pages(), pages) << "the same places";
  for (Span* span : spans) release(span);
}

TEST(Reserve, OnlyUsedMemoryCountsAgainstALimit) {
  Span* span = take(1);
  os::Counters before = os::counters();
  // Earlier tests have mapped a part of it, and unmapped it without our knowledge.
  EXPECT_LT(before.map_bytes - before.unmap_bytes, 8 * GiB) << "nothing is reserved";
  release(span);
}

}  // namespace
}  // namespace seemalloc::pages

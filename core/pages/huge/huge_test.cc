// Huge memory: the cache and how it serves the next request (huge_cache.h, mapping_boundaries.h,
// huge.h), with refused system calls.
#include "core/pages/huge/huge.h"

#include <gtest/gtest.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "core/base/option_for_test.h"
#include "core/base/options.h"
#include "core/base/seed_for_test.h"
#include "core/os/kernel/calls.h"
#include "core/os/kernel/fault.h"
#include "core/os/kernel/memory.h"
#include "core/pages/huge/huge_cache.h"
#include "core/pages/huge/huge_space.h"
#include "core/pages/huge/mapping_boundaries.h"
#include "core/pages/policy/unmap_misses.h"
#include "core/pages/span/memory_account.h"
#include "core/pages/span/page_map.h"

namespace seemalloc::pages {
namespace {

char* memory(const Span* span) { return reinterpret_cast<char*>(span->start); }

Span* written(size_t bytes, char fill = 1) {
  Span* span = allocate_huge(bytes, kPageBytes);
  memset(memory(span), fill, span->bytes);
  return span;
}

TEST(MappingBoundaries, AgreeWithAModel) {
  static MappingBoundaries boundaries;
  std::set<uintptr_t> model;
  std::mt19937 random(seed_for_test());
  for (int i = 0; i < 20000; i++) {
    uintptr_t a = 1 + random() % 1000, b = a + random() % 50;
    if (random() % 3 != 0) {
      boundaries.add(a);
      model.insert(a);
    } else {
      boundaries.remove(a, b);
      model.erase(model.lower_bound(a), model.upper_bound(b));
    }
    auto behind = model.upper_bound(a);
    ASSERT_EQ(boundaries.next(a, b), behind == model.end() || *behind >= b ? b : *behind);
    ASSERT_EQ(boundaries.between(a, b), std::count_if(model.begin(), model.end(),
                                                      [&](uintptr_t s) { return a < s && s < b; }));
  }
  EXPECT_TRUE(boundaries.complete());
}

TEST(MappingBoundaries, TooManyAreNoticed) {
  static MappingBoundaries boundaries;
  for (uintptr_t i = 0; i < MappingBoundaries::kMaxBoundaries; i++) boundaries.add(i * 2);
  EXPECT_TRUE(boundaries.complete());
  boundaries.add(10);
  EXPECT_TRUE(boundaries.complete()) << "it is there already";
  boundaries.add(11);
  EXPECT_FALSE(boundaries.complete());
  boundaries.remove(0, MappingBoundaries::kMaxBoundaries);
  EXPECT_FALSE(boundaries.complete()) << "half of them are left";
  boundaries.remove(0, 2 * MappingBoundaries::kMaxBoundaries - 100);
  EXPECT_TRUE(boundaries.complete());
}

// ---- the cache ----

Extent extent(uintptr_t start, size_t bytes, uint64_t freed = 1, bool sparse = false) {
  return Extent{start, bytes, freed, sparse};
}

TEST(HugeCache, TheTightestRunServesWithItsFirstPart) {
  static HugeCache cache;
  for (const Extent& e :
       {extent(1000, 100), extent(2000, 30), extent(2030, 30, 2), extent(3000, 50)})
    ASSERT_TRUE(cache.put(e));
  Extent out;
  ASSERT_TRUE(cache.take_fit(55, 1, 10, &out));
  EXPECT_EQ(out.start, 2000u) << "two side by side are one run";
  EXPECT_EQ(out.bytes, 60u) << "a small rest stays with it";
  EXPECT_EQ(out.freed_ns, 2u);
  ASSERT_TRUE(cache.take_fit(40, 1, 10, &out));
  EXPECT_EQ(out.start, 3000u);
  EXPECT_EQ(out.bytes, 40u);
  EXPECT_EQ(cache.dirty_bytes(), 110u);
  EXPECT_FALSE(cache.take_fit(101, 1, 10, &out));
  EXPECT_FALSE(cache.take_fit(20, 4096, 10, &out)) << "aligned";
  EXPECT_FALSE(cache.take_at(1001, 10, &out));
  EXPECT_FALSE(cache.take_at(1000, 101, &out));
  EXPECT_TRUE(cache.take_at(1000, 60, &out));
  EXPECT_EQ(out.bytes, 60u);
  EXPECT_TRUE(cache.take_at(1060, 40, &out));
  EXPECT_TRUE(cache.take_at(3040, 10, &out));
  EXPECT_EQ(cache.dirty_bytes(), 0u);
}

TEST(HugeCache, SparseExtentsAreNoPartOfRuns) {
  static HugeCache cache;
  ASSERT_TRUE(cache.put(extent(1000, 100, 1, true)));
  ASSERT_TRUE(cache.put(extent(1100, 100, 1, true)));
  Extent out;
  EXPECT_FALSE(cache.take_fit(150, 1, 10, &out));
  ASSERT_TRUE(cache.take_fit(60, 1, 10, &out));
  EXPECT_EQ(out.bytes, 100u) << "the whole extent, up to twice the requested bytes";
  Extent extents[4];
  ASSERT_TRUE(cache.put(extent(2000, 20)));
  EXPECT_EQ(cache.take_extents(1000, 10, extents, 4), 1u) << "dense ones come first";
  EXPECT_EQ(extents[0].start, 2000u);
  EXPECT_EQ(cache.take_extents(1000, 10, extents, 4), 1u);
  EXPECT_TRUE(extents[0].sparse);
}

TEST(HugeCache, RangesFreedTogetherMergeAndAreAged) {
  static HugeCache cache;
  for (uintptr_t i = 0; i < 2 * HugeCache::kMaxExtents; i++)
    ASSERT_TRUE(cache.put(extent(1000 + i, 1)));
  for (unsigned i = 1; i < HugeCache::kMaxExtents; i++)
    ASSERT_TRUE(cache.put(extent(10000 + i * 2, 1, 5)));
  EXPECT_FALSE(cache.put(extent(20000, 1))) << "no record left";
  Extent out;
  ASSERT_TRUE(cache.take_oldest(&out));
  EXPECT_EQ(out.bytes, size_t{2 * HugeCache::kMaxExtents});
  EXPECT_FALSE(cache.take_old(5, &out));
  EXPECT_TRUE(cache.take_old(6, &out));
}

// It could be neither unmapped nor purged: taking it again would loop forever.
TEST(HugeCache, UnpurgeableMemoryIsNotReportedAsPurged) {
  static HugeCache cache;
  ASSERT_TRUE(cache.put(extent(1000, 1, UINT64_MAX)));
  Extent out;
  EXPECT_FALSE(cache.take_oldest(&out));
}

// No byte is allocated twice and none is lost, whatever is put and taken.
TEST(HugeCache, AgreesWithAModel) {
  static HugeCache cache;
  unsigned seed = seed_for_test();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  std::vector<bool> inside(4000);
  size_t total = 0;
  auto taken = [&](const Extent& e) {
    for (uintptr_t at = e.start; at < e.start + e.bytes; at++) {
      ASSERT_TRUE(inside[at]);
      inside[at] = false;
    }
    total -= e.bytes;
  };
  for (int step = 0; step < 20000; step++) {
    size_t bytes = 1 + random() % 60;
    Extent out, extents[8];
    switch (random() % 5) {
      case 0:
      case 1: {
        uintptr_t start = random() % 3900;
        if (std::count(inside.begin() + start, inside.begin() + start + bytes, true) != 0) break;
        if (!cache.put(extent(start, bytes, random() % 3, random() % 4 == 0))) break;
        std::fill_n(inside.begin() + start, bytes, true);
        total += bytes;
        break;
      }
      case 2:
        if (cache.take_fit(bytes, size_t{1} << random() % 3, 8, &out)) {
          ASSERT_GE(out.bytes, bytes);
          taken(out);
        }
        break;
      case 3: {
        unsigned count = cache.take_extents(bytes, 3, extents, 8);
        for (unsigned i = 0; i < count; i++) taken(extents[i]);
        break;
      }
      default: {
        uintptr_t start = random() % 4000;
        if (cache.take_at(start, bytes, &out)) taken(out);
        if (random() % 20 == 0 && cache.take_old(2, &out)) taken(out);
      }
    }
    ASSERT_EQ(cache.dirty_bytes(), total);
  }
}

// ---- memory unmapped immediately ----

constexpr uint64_t kDelayNs = kSecondNs;

TEST(UnmapMisses, MemoryThatWouldHaveServedRequestsIsKept) {
  UnmapMisses memory;
  uint64_t now = 100 * kDelayNs;
  for (unsigned i = 0; i < UnmapMisses::kMissesToKeep; i++) {
    EXPECT_FALSE(memory.worth_keeping(now, kDelayNs));
    memory.note_unmapped(64 * MiB, now);
    memory.note_mapped(40 * MiB, now += kDelayNs, kDelayNs);
  }
  EXPECT_TRUE(memory.worth_keeping(now, kDelayNs));
  EXPECT_TRUE(memory.worth_keeping(now + UnmapMisses::kDelaysToKeep * kDelayNs, kDelayNs));
  EXPECT_FALSE(memory.worth_keeping(now + (UnmapMisses::kDelaysToKeep + 1) * kDelayNs, kDelayNs))
      << "that was long ago";
  memory.note_unmapped(64 * MiB, now += 20 * kDelayNs);
  memory.note_mapped(64 * MiB, now, kDelayNs);
  EXPECT_FALSE(memory.worth_keeping(now, kDelayNs)) << "it begins anew";
}

TEST(UnmapMisses, AGrowingVectorMissesNothing) {
  UnmapMisses memory;
  size_t bytes = 40 * MiB;
  for (int i = 0; i < 20; i++, bytes += bytes / 2) {
    memory.note_mapped(bytes + bytes / 2, kSecondNs, kDelayNs);
    memory.note_unmapped(bytes, kSecondNs);
  }
  EXPECT_FALSE(memory.worth_keeping(kSecondNs, kDelayNs));
}

TEST(UnmapMisses, OldRangesAndReusedBytesDoNotCount) {
  UnmapMisses memory;
  memory.note_unmapped(100 * MiB, kSecondNs);
  for (int i = 0; i < 5; i++) memory.note_mapped(40 * MiB, 2 * kSecondNs, kDelayNs);
  EXPECT_FALSE(memory.worth_keeping(2 * kSecondNs, kDelayNs)) << "two would have been served";
  for (int i = 0; i < 3; i++) memory.note_unmapped(100 * MiB, 3 * kSecondNs);
  for (int i = 0; i < 3; i++) memory.note_mapped(90 * MiB, 6 * kSecondNs, kDelayNs);
  EXPECT_FALSE(memory.worth_keeping(6 * kSecondNs, kDelayNs)) << "three delays ago";
}

// ---- all together ----

class HugeMemory : public testing::Test {
 protected:
  void SetUp() override { purge_huge(UINT64_MAX); }
  void TearDown() override { purge_huge(UINT64_MAX); }
};

// Frees blocks with a gap between any two of them: no run is longer than `each`.
void free_separately(size_t each, int count, std::vector<Span*>* between) {
  std::vector<Span*> blocks;
  for (int i = 0; i < 2 * count; i++) blocks.push_back(written(each, 9));
  for (int i = 0; i < 2 * count; i++) {
    if (i % 2 == 0) {
      release_huge(blocks[i]);
    } else {
      between->push_back(blocks[i]);
    }
  }
}

TEST_F(HugeMemory, BlockOfTheCurrentWorkIsKept) {
  huge_totals(true);
  release_huge(written(200 * MiB));
  EXPECT_EQ(huge_statistics().cached_bytes, 200 * MiB);
  huge_totals(true);
  huge_totals(true);                 // nothing was in use in that window
  release_huge(written(100 * MiB));  // a part of the cached memory
  EXPECT_EQ(huge_statistics().cached_bytes, 100 * MiB) << "no more than was in use lately";
}

TEST_F(HugeMemory, RangesLeftByAGrowingVectorAreNotKept) {
  huge_totals(true);
  Span* half = written(100 * MiB);
  Span* whole = written(200 * MiB);
  release_huge(half);
  EXPECT_EQ(huge_statistics().cached_bytes, 0u);
  release_huge(whole);
}

TEST_F(HugeMemory, FailedAllocationsAreNoMisses) {
  options::OptionForTest delay(options::Id::purge_delay, "50");
  // Forget the misses of other tests.
  os::advance_test_clock((UnmapMisses::kDelaysToKeep + 2) * 50 * kMillisecondNs);
  std::vector<Span*> spans;
  for (unsigned i = 0; i < 5; i++) spans.push_back(allocate_huge(48 * MiB, kPageBytes));
  auto release_one = [&] {
    release_huge(spans.back());
    spans.pop_back();
  };
  for (unsigned i = 0; i < UnmapMisses::kMissesToKeep; i++) release_one();
  EXPECT_EQ(huge_statistics().cached_bytes, 0u) << "each is too much";
  {
    os::FailCalls refuse(SYS_mmap, ENOMEM);
    for (unsigned i = 0; i < UnmapMisses::kMissesToKeep; i++)
      EXPECT_EQ(allocate_huge(48 * MiB, kPageBytes), nullptr);
  }
  release_one();
  EXPECT_EQ(huge_statistics().cached_bytes, 0u);
  release_one();
}

// Each buffer exceeds the cache's limit while the other is cached, but both are reused immediately.
// Returns the bytes mapped for them in the last round.
uint64_t mapped_for_reused_buffers() {
  auto mapped = [] { return os::call_count(os::Call::kMap, os::Reason::kHuge).bytes; };
  uint64_t before = 0;
  for (unsigned round = 0; round < 8; round++) {
    if (round == 4) before = mapped();
    Span* one = written(48 * MiB);
    Span* other = written(48 * MiB);
    release_huge(one);
    release_huge(other);
  }
  return mapped() - before;
}

TEST_F(HugeMemory, ReusedBuffersAreKeptEventually) {
  EXPECT_EQ(mapped_for_reused_buffers(), 0u);
  EXPECT_EQ(huge_statistics().cached_bytes, 96 * MiB) << "no more than was in use";
}

TEST_F(HugeMemory, ReusedBuffersAreKeptUpToAQuarterOfTheLimit) {
  struct Limited {
    explicit Limited(size_t bytes) { smallest_limit = bytes; }
    ~Limited() { smallest_limit = SIZE_MAX; }
  };
  {
    Limited limited(512 * MiB);
    EXPECT_EQ(mapped_for_reused_buffers(), 0u);
    purge_huge(UINT64_MAX);
    under_memory_pressure = true;
    EXPECT_GE(mapped_for_reused_buffers(), 4 * 96 * MiB);
    under_memory_pressure = false;
  }
  Limited limited(160 * MiB);
  EXPECT_GE(mapped_for_reused_buffers(), 4 * 96 * MiB);
}

TEST_F(HugeMemory, ALargeBlockIsGatheredFromSmallerOnes) {
  std::vector<Span*> between;
  free_separately(2 * MiB, 4, &between);
  EXPECT_EQ(huge_statistics().cached_bytes, 8 * MiB);
  Span* span = allocate_huge(8 * MiB, kPageBytes);
  EXPECT_FALSE(span->known_zero);
  EXPECT_GE(os::resident_bytes(memory(span), span->bytes), 8 * MiB - kPageBytes)
      << "only the last page of it is fresh";
  EXPECT_EQ(huge_statistics().cached_bytes, 0u);
  memset(memory(span), 3, span->bytes);
  // It is moved part by part when it grows.
  ASSERT_TRUE(resize_huge(span, 11 * MiB));
  EXPECT_EQ(page_map.span_of(memory(span)), span);
  for (size_t i = 0; i < 8 * MiB; i += 4096) ASSERT_EQ(memory(span)[i], 3);
  memory(span)[11 * MiB - 1] = 1;
  for (Span* b : between) {
    EXPECT_EQ(memory(b)[5000], 9);
    release_huge(b);
  }
  release_huge(span);
  EXPECT_GE(purge_huge(UINT64_MAX), 19 * MiB);
  EXPECT_EQ(huge_statistics().used_bytes, 0u);
}

TEST_F(HugeMemory, AShrunkBlockLeavesItsEndToOthers) {
  Span* span = written(9 * MiB);
  ASSERT_TRUE(resize_huge(span, 3 * MiB));
  EXPECT_EQ(huge_statistics().cached_bytes, 6 * MiB);
  Span* other = allocate_huge(6 * MiB, kPageBytes);
  EXPECT_EQ(memory(other), memory(span) + 3 * MiB);
  release_huge(other);
  EXPECT_TRUE(resize_huge(span, 5 * MiB)) << "and takes it back";
  EXPECT_EQ(huge_statistics().cached_bytes, 4 * MiB);
  release_huge(span);
}

// The kernel takes about 100 µs to check 2 MiB.
TEST_F(HugeMemory, ResidencyIsQueriedForFreshMemoryOnly) {
  auto asked = [] { return os::call_count(os::Call::kMincore, os::Reason::kHuge).calls; };
  uint64_t before = asked();
  release_huge(written(4 * MiB));
  EXPECT_EQ(asked(), before + 1);
  Span* again = allocate_huge(4 * MiB, kPageBytes);
  ASSERT_FALSE(again->known_zero);
  ASSERT_TRUE(resize_huge(again, 3 * MiB)) << "its end is kept as well";
  release_huge(again);
  EXPECT_EQ(asked(), before + 1);
  Span* grown = allocate_huge(4 * MiB, kPageBytes);
  ASSERT_TRUE(resize_huge(grown, 9 * MiB)) << "by untouched memory";
  release_huge(grown);
  EXPECT_GT(asked(), before + 1);
}

TEST_F(HugeMemory, AHardlyTouchedBlockIsUsedAgainFromItsStart) {
  Span* span = allocate_huge(8 * MiB, kPageBytes);
  memset(memory(span), 1, MiB);
  uintptr_t start = span->start;
  release_huge(span);
  span = allocate_huge(5 * MiB, kPageBytes);
  EXPECT_EQ(span->start, start);
  EXPECT_EQ(huge_statistics().used_bytes, 5 * MiB);
  EXPECT_EQ(huge_statistics().cached_bytes, 0u) << "the untouched end stays with the block";
  EXPECT_TRUE(resize_huge(span, 8 * MiB));
  EXPECT_EQ(span->start, start);
  release_huge(span);
  EXPECT_EQ(purge_huge(UINT64_MAX), 8 * MiB);
}

TEST_F(HugeMemory, LittleSparseMemoryIsKept) {
  std::vector<Span*> blocks;
  for (int i = 0; i < 20; i++) {
    blocks.push_back(allocate_huge(8 * MiB, kPageBytes));
    *static_cast<volatile char*>(memory(blocks.back())) = 1;
  }
  for (Span* block : blocks) release_huge(block);
  EXPECT_EQ(huge_statistics().cached_bytes, 128 * MiB) << "the 16 freed last";
}

// Room for further growth is taken only where it is available.
TEST_F(HugeMemory, GrowsInPlaceIfExactlyEnoughIsFree) {
  uintptr_t start = reinterpret_cast<uintptr_t>(os::map(64 * MiB, os::Reason::kHuge));
  Span* span = written(8 * MiB);
  ASSERT_TRUE(os::unmap(reinterpret_cast<void*>(start), 64 * MiB, os::Reason::kHuge));
  span->carved = 1;  // it has grown before, so the next growth requests an eighth more
  uintptr_t end = span->start + span->bytes;
  if (!os::map_at(end, 1 * MiB + kPageBytes, os::Reason::kHuge))
    GTEST_SKIP() << "something is behind the block";
  ASSERT_TRUE(os::unmap(reinterpret_cast<void*>(end), 1 * MiB, os::Reason::kHuge));
  EXPECT_TRUE(resize_huge(span, 9 * MiB));
  EXPECT_EQ(span->start + span->bytes, end + 1 * MiB) << "it stayed";
  os::unmap(reinterpret_cast<void*>(end + 1 * MiB), kPageBytes, os::Reason::kHuge);
  release_huge(span);
}

TEST_F(HugeMemory, ARefusedMoveLosesNoContents) {
  for (unsigned skip = 0; skip < 32; skip++) {
    SCOPED_TRACE(skip);
    std::vector<Span*> between;
    free_separately(2 * MiB, 4, &between);
    Span* span = allocate_huge(6 * MiB, kPageBytes);  // in three parts
    memset(memory(span), 4, span->bytes);
    {
      os::FailCalls refuse(SYS_mremap, skip % 2 == 0 ? ENOMEM : EPERM, 1, skip / 2);
      if (resize_huge(span, 9 * MiB)) memset(memory(span), 4, span->bytes);
      Span* other = allocate_huge(5 * MiB, kPageBytes);
      ASSERT_NE(other, nullptr);
      memset(memory(other), 5, other->bytes);
      release_huge(other);
    }
    EXPECT_EQ(page_map.span_of(memory(span)), span);
    for (size_t i = 0; i < span->bytes; i += 4096) ASSERT_EQ(memory(span)[i], 4);
    for (Span* b : between) {
      for (size_t i = 0; i < b->bytes; i += 4096) ASSERT_EQ(memory(b)[i], 9);
      release_huge(b);
    }
    release_huge(span);
    purge_huge(UINT64_MAX);
  }
}

// After enough refusals, moves are not tried until everything has been purged: each may have cost
// address space.
TEST_F(HugeMemory, MovesThatAreAlwaysRefusedAreGivenUp) {
  std::vector<Span*> between;
  os::FailCalls refuse(SYS_mremap, EPERM);
  unsigned refusals = 0;
  for (int round = 0; round < 20; round++) {
    free_separately(2 * MiB, 2, &between);
    Span* span = written(4 * MiB);
    EXPECT_FALSE(resize_huge(span, 64 * MiB));
    EXPECT_EQ(memory(span)[MiB], 1);
    release_huge(span);
    if (round == 9) refusals = refuse.refusals();
  }
  EXPECT_EQ(refuse.refusals(), refusals);
  for (Span* b : between) release_huge(b);
}

void expect_moved_with_contents(Span* span, uintptr_t from, bool moved, char fill) {
  EXPECT_EQ(span->start != from, moved);
  EXPECT_EQ(page_map.span_of(memory(span)), span);
  for (size_t i = 0; i < 4 * MiB; i += 4096) ASSERT_EQ(memory(span)[i], fill);
}

// Grows a block that cannot grow in place.
bool grow_separately(Span* span, size_t bytes) {
  os::map_at(span->start + span->bytes, os::page_bytes(), os::Reason::kHuge);
  return resize_huge(span, bytes);
}

// For a block in several parts, every refusal leaves a whole block: the old one while nothing has
// moved, then a copy.
TEST_F(HugeMemory, ABlockThatMovedInPartIsCopiedTogether) {
  for (unsigned good = 0; good < 3; good++) {
    std::vector<Span*> between;
    free_separately(2 * MiB, 3, &between);
    Span* span = allocate_huge(6 * MiB, kPageBytes);  // in three parts
    memset(memory(span), 4, span->bytes);
    uintptr_t from = span->start;
    {
      os::FailCalls refuse(SYS_mremap, ENOMEM, 1, 3 + good);  // skips the three mapping checks
      EXPECT_EQ(grow_separately(span, 9 * MiB), good != 0);
    }
    expect_moved_with_contents(span, from, good != 0, 4);
    for (Span* b : between) release_huge(b);
    release_huge(span);
    purge_huge(UINT64_MAX);
  }
}

// The program may split a block by madvise on a part of it. Linux 6.17 would move only half of such
// a range.
TEST_F(HugeMemory, ABlockThatTheProgramHasSplitIsLeftToBeCopied) {
  for (int round = 0; round < 20; round++) {
    Span* span = written(4 * MiB, 6);
    uintptr_t from = span->start;
    ASSERT_EQ(madvise(memory(span) + MiB, MiB, MADV_DONTDUMP), 0);
    EXPECT_FALSE(grow_separately(span, 8 * MiB));
    expect_moved_with_contents(span, from, false, 6);
    release_huge(span);
    purge_huge(UINT64_MAX - 1);  // all; keeps the count of refusals
  }
  Span* other = written(4 * MiB, 7);
  uintptr_t from = other->start;
  EXPECT_TRUE(grow_separately(other, 8 * MiB)) << "that is no matter of other blocks";
  expect_moved_with_contents(other, from, true, 7);
  release_huge(other);
}

// Memory that could not be unmapped still consists of as many mappings as before.
TEST_F(HugeMemory, UnreleasableMemoryIsMovedInParts) {
  std::vector<Span*> between;
  free_separately(2 * MiB, 3, &between);
  Span* span = allocate_huge(6 * MiB, kPageBytes);
  uintptr_t start = span->start;
  release_huge(span);
  {
    os::FailCalls refuse(SYS_munmap, ENOMEM);
    purge_huge(UINT64_MAX);
  }
  span = allocate_huge(6 * MiB, kPageBytes);
  ASSERT_EQ(span->start, start);
  EXPECT_TRUE(span->known_zero);
  memset(memory(span), 3, span->bytes);
  EXPECT_TRUE(grow_separately(span, 9 * MiB));
  expect_moved_with_contents(span, start, true, 3);
  release_huge(span);
  for (Span* b : between) release_huge(b);
}

// ---- mappings ----

size_t mappings() {
  std::ifstream maps("/proc/self/maps");
  size_t count = 0;
  for (std::string line; std::getline(maps, line);) count++;
  return count;
}

uint64_t calls(os::Call call) { return os::call_count(call, os::Reason::kHuge).calls; }

// More holes than the kernel allows mappings: block, hole, block, hole …
std::vector<Span*> blocks_with_holes(size_t holes) {
  std::vector<Span*> blocks;
  for (size_t i = 0; i < 2 * holes; i++) {
    blocks.push_back(allocate_huge(MiB + 100 * KiB, kPageBytes));
    *static_cast<volatile char*>(memory(blocks.back())) = 7;
  }
  for (size_t i = 0; i < blocks.size(); i += 2) release_huge(blocks[i]);
  purge_huge(UINT64_MAX);
  for (size_t i = 0; i < holes; i++) blocks[i] = blocks[2 * i + 1];
  blocks.resize(holes);
  return blocks;
}

TEST_F(HugeMemory, ManyHolesLeaveFarFewerMappingsThanTheKernelAllows) {
  constexpr size_t kHoles = kMaxMappedRanges + 4000;
  std::vector<Span*> blocks = blocks_with_holes(kHoles);
  EXPECT_LE(huge_space().mapped_ranges, kMaxMappedRanges + 10);
  EXPECT_GE(huge_space().retained_ranges, 3900u);
  EXPECT_LT(mappings(), kMaxMappedRanges + 1000);
  // Retained ranges are reused by new blocks and by growing ones.
  uint64_t mapped = calls(os::Call::kMap), kept = huge_space().retained_ranges;
  std::vector<Span*> more;
  for (int i = 0; i < 1000; i++) {
    more.push_back(allocate_huge(MiB + 100 * KiB, kPageBytes));
    ASSERT_TRUE(more.back()->known_zero);
    ASSERT_EQ(*memory(more.back()), 0);
  }
  EXPECT_EQ(calls(os::Call::kMap), mapped);
  EXPECT_EQ(huge_space().retained_ranges, kept - 1000);
  int grown = 0;
  for (Span* span : blocks) grown += resize_huge(span, span->bytes + 256 * KiB) ? 1 : 0;
  // The kernel has mapped a few of our own records into unmapped holes.
  EXPECT_GE(grown, static_cast<int>(kHoles) - 1100) << "all but those in front of a new block";
  // Some retained ranges are unmapped when the OS refuses memory, and all of them with the blocks.
  size_t ranges = huge_space().mapped_ranges;
  if (huge_space().retained_ranges != 0) {
    EXPECT_GT(unmap_retained_huge(), 0u);
    EXPECT_GT(huge_space().mapped_ranges, ranges);
  }
  EXPECT_LE(huge_space().mapped_ranges, kMaxMappedRanges / 2 * 7);
  for (Span* span : more) release_huge(span);
  for (Span* span : blocks) release_huge(span);
  purge_huge(UINT64_MAX);
  EXPECT_EQ(huge_space().retained_bytes, 0u);
  EXPECT_EQ(huge_space().mapped_ranges, 0u);
  EXPECT_LT(mappings(), 1000u);
}

// Whatever is refused, all mapped memory is accounted for: at the end nothing is left, and no block
// has lost its contents.
TEST_F(HugeMemory, RandomBlocksAmongManyHolesKeepTheirContents) {
  unsigned seed = seed_for_test();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  std::vector<Span*> around = blocks_with_holes(kMaxMappedRanges + 500);
  std::map<Span*, char> live;
  for (int step = 0; step < 3000; step++) {
    size_t bytes = MiB + random() % (2 * MiB);
    auto some = live.begin();
    if (!live.empty()) std::advance(some, random() % live.size());
    switch (random() % 4) {
      case 0:
      case 1: {
        size_t alignment = kPageBytes << random() % 8;
        Span* span = allocate_huge(bytes, alignment);
        ASSERT_NE(span, nullptr);
        ASSERT_EQ(span->start % alignment, 0u);
        ASSERT_EQ(page_map.span_of(memory(span)), span);
        if (span->known_zero) {
          ASSERT_EQ(memory(span)[0] | memory(span)[span->bytes - 1], 0);
        }
        char fill = static_cast<char>(1 + random() % 100);
        memory(span)[0] = memory(span)[MiB - 1] = fill;
        live[span] = fill;
        break;
      }
      case 2:
        if (live.empty()) break;
        ASSERT_EQ(memory(some->first)[0], some->second);
        ASSERT_EQ(memory(some->first)[MiB - 1], some->second);
        release_huge(some->first);
        live.erase(some);
        if (random() % 8 == 0) purge_huge(UINT64_MAX);
        break;
      default:
        if (!live.empty()) resize_huge(some->first, bytes);
    }
  }
  for (auto& [span, fill] : live) {
    ASSERT_EQ(memory(span)[0], fill);
    ASSERT_EQ(memory(span)[MiB - 1], fill);
    release_huge(span);
  }
  for (Span* span : around) release_huge(span);
  purge_huge(UINT64_MAX);
  EXPECT_EQ(huge_space().retained_bytes, 0u);
  EXPECT_EQ(huge_space().mapped_ranges, 0u);
}

// ---- cost ----

TEST_F(HugeMemory, SparseMemoryIsCheapAtAnySize) {
  for (size_t bytes : {2 * MiB, 64 * MiB, 4 * GiB}) {
    uint64_t looks = calls(os::Call::kMincore),
             looked = os::call_count(os::Call::kMincore, os::Reason::kHuge).bytes;
    for (int i = 0; i < 10; i++) {
      Span* span = allocate_huge(bytes, kPageBytes);
      ASSERT_NE(span, nullptr);
      *static_cast<volatile char*>(memory(span)) = 1;
      release_huge(span);
    }
    EXPECT_LE(calls(os::Call::kMincore) - looks, 10 * 4u) << bytes;
    EXPECT_LE(os::call_count(os::Call::kMincore, os::Reason::kHuge).bytes - looked, 10 * 4 * MiB)
        << bytes;
    purge_huge(UINT64_MAX);
  }
}

TEST_F(HugeMemory, EstimateIsNearResidentBytes) {
  constexpr size_t kBytes = 256 * MiB;
  char* range = static_cast<char*>(os::map(kBytes, os::Reason::kHuge));
  auto estimate = [&] { return os::estimate_resident_bytes(range, kBytes, os::Reason::kHuge); };
  EXPECT_EQ(estimate(), 0u);
  for (unsigned parts = 1; parts <= 8; parts++) {
    memset(range + (parts - 1) * kBytes / 8, 1, kBytes / 8);
    EXPECT_LE(estimate(), (parts + 2) * kBytes / 8);
    EXPECT_GE(estimate() + 2 * kBytes / 8, parts * kBytes / 8);
  }
  EXPECT_EQ(estimate(), kBytes);
  os::unmap(range, kBytes, os::Reason::kHuge);
}

TEST_F(HugeMemory, AMoveIsTriedAgainSomeTimeAfterTheLastRefusal) {
  auto report = [](const char* line) { ADD_FAILURE() << line; };
  options::parse("purge_delay:1", report);
  {
    os::FailCalls refuse(SYS_mremap, EPERM);
    for (int i = 0; i < 8; i++) {
      Span* span = written(4 * MiB);
      EXPECT_FALSE(grow_separately(span, 8 * MiB));
      release_huge(span);
    }
  }
  Span* span = written(4 * MiB);
  EXPECT_FALSE(grow_separately(span, 8 * MiB)) << "not at once";
  os::advance_test_clock(1200 * kMillisecondNs);
  EXPECT_TRUE(resize_huge(span, 8 * MiB));
  release_huge(span);
  options::parse("purge_delay:1000", report);
}

// A refusal by the kernel in the middle: the second half may not be moved, the first may.
TEST_F(HugeMemory, ABlockHalfOfWhichIsSealedIsNotMovedByHalves) {
  auto in_child = [] {
    Span* span = written(4 * MiB, 5);
    constexpr long kMseal = 462;
    if (syscall(kMseal, memory(span) + 2 * MiB, 2 * MiB, 0) != 0) _exit(0);  // Linux 6.10
    uintptr_t from = span->start;
    if (grow_separately(span, 8 * MiB) || span->start != from) _exit(1);
    for (size_t i = 0; i < 4 * MiB; i += 4096) {
      if (memory(span)[i] != 5) _exit(2);
    }
    release_huge(span);
    _exit(0);
  };
  EXPECT_EXIT(in_child(), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace seemalloc::pages

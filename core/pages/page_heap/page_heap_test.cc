#include "core/pages/page_heap/page_heap.h"

#include <errno.h>
#include <gtest/gtest.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <map>
#include <random>
#include <thread>
#include <vector>

#include "core/base/option_for_test.h"
#include "core/base/repetitions_for_test.h"
#include "core/base/seed_for_test.h"
#include "core/os/kernel/clock.h"
#include "core/os/kernel/fault.h"
#include "core/os/kernel/memory.h"
#include "core/os/kernel/waits_for_test.h"
#include "core/pages/huge/huge.h"
#include "core/pages/page_heap/purge.h"
#include "core/pages/policy/huge_page_pacing.h"
#include "core/pages/span/page_map.h"
#include "core/pages/span/region_count.h"

namespace seemalloc::pages {
namespace {

using options::Id;
using options::OptionForTest;

Span* take(size_t page_count, size_t alignment = 1) {
  Span* span = allocate_run(0, page_count, alignment, SpanKind::kLarge);
  if (span != nullptr) {
    span->set_live(1);
    publish(span);
  }
  return span;
}

char* memory(const Span* span) { return reinterpret_cast<char*>(span->start); }

bool all_zero(const char* p, size_t bytes) {
  for (size_t i = 0; i < bytes; i++) {
    if (p[i] != 0) return false;
  }
  return true;
}

TEST(PageMap, KnowsNothingOfForeignPointers) {
  int local = 0;
  for (const void* p : {static_cast<const void*>(nullptr), static_cast<const void*>(&local),
                        reinterpret_cast<const void*>(~uintptr_t{0} >> 16)}) {
    EXPECT_EQ(page_map.span_of(p)->kind, SpanKind::kForeign);
    EXPECT_EQ(page_map.span_of(p)->owner_, Span::kNoOwner);
  }
}

TEST(PageMap, FindsTheSpanFromEveryPage) {
  Span* span = take(5);
  for (size_t offset = 0; offset < span->bytes; offset += 1000)
    EXPECT_EQ(page_map.span_of(memory(span) + offset), span);
  char* p = memory(span);
  release(span);
  EXPECT_EQ(page_map.span_of(p)->kind, SpanKind::kFree);
}

struct Mode {
  const char* name;
  const char* purge;
  const char* delay_ms;
  const char* purge_free;
};

class PageHeapModes : public testing::TestWithParam<Mode> {};
INSTANTIATE_TEST_SUITE_P(All, PageHeapModes,
                         testing::Values(Mode{"balanced", "balanced", "1000", "0"},
                                         Mode{"short_delay", "balanced", "1", "0"},
                                         Mode{"eager", "eager", "1000", "0"},
                                         Mode{"never", "never", "1", "0"},
                                         Mode{"lazily", "balanced", "1", "1"},
                                         Mode{"eager_lazily", "eager", "1", "1"}),
                         [](const auto& info) { return info.param.name; });

// Runs never overlap, are aligned, read as zero when the heap reports so, and keep their contents
// until they are released.
TEST_P(PageHeapModes, RandomOperationsAgreeWithAModel) {
  OptionForTest purge(Id::purge, GetParam().purge), delay(Id::purge_delay, GetParam().delay_ms);
  OptionForTest lazily(Id::purge_free, GetParam().purge_free);
  purge_all();
  unsigned seed = seed_for_test();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  struct Run {
    Span* span;
    char fill;
  };
  std::map<uintptr_t, Run> runs;
  for (int step = 0; step < repetitions(20000); step++) {
    unsigned action = random() % 100;
    if (action < 50 && runs.size() < 400) {
      size_t page_count =
          random() % 20 == 0 ? 1 + random() % kMaxRegionRunPages : 1 + random() % 12;
      size_t alignment = random() % 10 == 0 ? size_t{1} << random() % 7 : 1;
      Span* span = take(page_count, alignment);
      ASSERT_NE(span, nullptr);
      ASSERT_EQ(span->start % (alignment * kPageBytes), 0u);
      auto after = runs.lower_bound(span->start);
      ASSERT_TRUE(after == runs.end() || span->start + span->bytes <= after->first);
      if (after != runs.begin()) {
        auto before = std::prev(after)->second.span;
        ASSERT_LE(before->start + before->bytes, span->start);
      }
      if (span->known_zero) ASSERT_TRUE(all_zero(memory(span), span->bytes));
      char fill = static_cast<char>(random());
      memset(memory(span), fill, span->bytes);
      runs[span->start] = {span, fill};
    } else if (action < 95 && !runs.empty()) {
      auto it = std::next(runs.begin(), random() % runs.size());
      Span* span = it->second.span;
      for (size_t i = 0; i < span->bytes; i += 512) ASSERT_EQ(memory(span)[i], it->second.fill);
      if (random() % 4 == 0 && span->bytes > kPageBytes) {
        shrink(span, 1 + random() % (span->bytes / kPageBytes - 1));
        continue;
      }
      size_t more = span->bytes / kPageBytes + 1 + random() % 4;
      if (random() % 4 == 0 && more <= kMaxRegionRunPages && try_extend(span, more)) {
        memset(memory(span), it->second.fill, span->bytes);
        continue;
      }
      release(span);
      runs.erase(it);
    } else if (random() % 4 == 0) {
      purge_all();
    } else {
      tick();
    }
  }
  size_t used = 0;
  for (auto& [start, run] : runs) used += run.span->bytes;
  EXPECT_EQ(page_statistics().used_bytes, used);
  for (auto& [start, run] : runs) release(run.span);
  EXPECT_EQ(page_statistics().used_bytes, 0u);
  purge_all();
  EXPECT_EQ(page_statistics().dirty_bytes, 0u);
  EXPECT_EQ(page_statistics().lazy_bytes, 0u);
}

TEST(PageHeap, PurgesExactlyTheFreedPages) {
  purge_all();
  std::vector<Span*> spans;
  for (int i = 0; i < 64; i++) {
    spans.push_back(take(2));
    memset(memory(spans.back()), 1, spans.back()->bytes);
  }
  for (int i = 0; i < 64; i += 2) release(spans[i]);
  EXPECT_EQ(purge_all(), 32 * 2 * kPageBytes);
  uint64_t calls = os::counters().purge_calls;
  EXPECT_EQ(purge_all(), 0u);
  EXPECT_EQ(os::counters().purge_calls, calls) << "clean pages were purged again";
  for (int i = 1; i < 64; i += 2) {
    EXPECT_EQ(memory(spans[i])[100], 1);
    release(spans[i]);
  }
  // The neighbours are clean: only the second half is purged, though it has merged with them.
  EXPECT_EQ(purge_all(), 32 * 2 * kPageBytes);
}

TEST(PageHeap, RefusedPurgeKeepsThePagesDirtyAndEnds) {
  Span* span = take(4);
  memset(memory(span), 1, span->bytes);
  release(span);
  {
    os::FailCalls refuse(SYS_madvise, EAGAIN);
    purge_all();
    EXPECT_EQ(refuse.refusals(), 1u);
  }
  EXPECT_EQ(page_statistics().dirty_bytes, 4 * kPageBytes);
  EXPECT_EQ(purge_all(), 4 * kPageBytes);
}

TEST(PageHeap, RefusedMemoryIsNullAndNothingIsLost) {
  std::vector<Span*> spans;
  {
    os::FailCalls refuse(SYS_mmap, ENOMEM);
    while (Span* span = take(kMaxRegionRunPages)) spans.push_back(span);
    EXPECT_GT(refuse.refusals(), 0u);
    EXPECT_EQ(allocate_huge(4 * MiB, kPageBytes), nullptr);
  }
  Span* span = take(kMaxRegionRunPages);
  EXPECT_NE(span, nullptr);
  release(span);
  for (Span* s : spans) release(s);
}

// ---- huge pages ----

Span* take_dense(size_t page_count) {
  Span* span = allocate_run(0, page_count, 1, SpanKind::kLarge, true);
  if (span != nullptr) {
    span->set_live(1);
    publish(span);
  }
  return span;
}

// Fills a heap that is large enough for a huge page, and clears the pacing's debt.
std::vector<Span*> fill_many_regions() {
  while (!huge_page_pacing.due()) huge_page_pacing.delivered(0);
  std::vector<Span*> spans;
  while (region_count() < 40) spans.push_back(take(kMaxRegionRunPages));
  purge_all();
  unsigned regions = region_count();
  while (region_count() == regions) spans.push_back(take(kMaxRegionRunPages));
  spans.push_back(take(kMaxRegionRunPages));  // the second half of the last one
  return spans;
}

void release_all(const std::vector<Span*>& spans) {
  for (Span* span : spans) release(span);
  purge_all();
}

size_t resident(uintptr_t start, size_t bytes) {
  return os::resident_bytes(reinterpret_cast<void*>(start), bytes);
}

TEST(HugePages, DenseRunTakesAHugePageAndUnusedRestIsPurged) {
  std::vector<Span*> spans = fill_many_regions();
  Span* first = take_dense(8);
  if (page_statistics().huge_pages == 0) {
    release(first);
    release_all(spans);
    GTEST_SKIP() << "the kernel has no huge page";
  }
  uintptr_t base = round_down(first->start, kRegionBytes);
  EXPECT_TRUE(first->known_zero);
  EXPECT_EQ(resident(base, kRegionBytes), kRegionBytes);
  EXPECT_EQ(page_statistics().dirty_bytes, kRegionBytes - first->bytes);
  // Sparse runs are placed in other regions; dense runs are placed in this one and read as zero
  // like fresh memory.
  Span* sparse = take(kMaxRegionRunPages);
  EXPECT_NE(round_down(sparse->start, kRegionBytes), base);
  Span* rest = take(kMaxRegionRunPages);
  EXPECT_NE(round_down(rest->start, kRegionBytes), base);
  Span* second = take_dense(8);
  EXPECT_EQ(round_down(second->start, kRegionBytes), base);
  EXPECT_TRUE(second->known_zero);
  EXPECT_TRUE(all_zero(memory(second), second->bytes));
  memset(memory(second), 7, second->bytes);
  release(second);
  second = take_dense(8);
  EXPECT_FALSE(second->known_zero);
  EXPECT_EQ(purge_all(), kRegionBytes - first->bytes - second->bytes);
  EXPECT_EQ(resident(base, kRegionBytes), first->bytes + second->bytes);
  EXPECT_EQ(page_statistics().huge_pages, 0u);
  for (Span* span : {first, second, sparse, rest}) release(span);
  release_all(spans);
}

TEST(HugePages, SpareMemoryIsBounded) {
  std::vector<Span*> spans = fill_many_regions();
  Span* first = take_dense(8);
  if (page_statistics().huge_pages == 0) {
    release(first);
    release_all(spans);
    GTEST_SKIP() << "the kernel has no huge page";
  }
  std::vector<Span*> runs{first};
  // Two runs fit a region, and a fifth of it remains.
  for (int i = 0; i < 20; i++) {
    while (!huge_page_pacing.due()) huge_page_pacing.delivered(0);
    runs.push_back(take_dense(100));
    EXPECT_LE(page_statistics().dirty_bytes * 32, region_count() * kRegionBytes);
  }
  release_all(runs);
  release_all(spans);
}

// Forks while a huge page is being taken: when the kernel is asked whether it has arrived.
long fork_at_residency_query(long number) {
  if (number != SYS_mincore) return 0;
  os::fault_hook = nullptr;
  lock_for_fork();
  int child = -1;
  wait_until([&child] { return (child = fork()) != -1; }, "fewer processes than the limit");
  unlock_after_fork(child == 0);
  if (child == 0) {
    bool entered = page_statistics().dirty_bytes == kRegionBytes - 8 * kPageBytes &&
                   purge_all() == kRegionBytes - 8 * kPageBytes;
    _exit(entered ? 0 : 1);
  }
  int status = -1;
  EXPECT_NE(child, -1) << strerror(errno);
  while (child != -1 && waitpid(child, &status, 0) == -1 && errno == EINTR) {
  }
  EXPECT_EQ(status, 0) << "no other thread of the child would enter it";
  return 0;
}

TEST(HugePages, RunBeingAllocatedIsRecordedInAForkedChild) {
  std::vector<Span*> spans = fill_many_regions();
  os::fault_hook = fork_at_residency_query;
  Span* first = take_dense(8);
  os::fault_hook = nullptr;
  if (page_statistics().huge_pages == 0) {
    release(first);
    release_all(spans);
    GTEST_SKIP() << "the kernel has no huge page";
  }
  EXPECT_EQ(page_statistics().dirty_bytes, kRegionBytes - first->bytes);
  release(first);
  release_all(spans);
}

TEST(HugePages, RefusedOnesAreDoneWithout) {
  std::vector<Span*> spans = fill_many_regions();
  Span* span;
  {
    os::FailCalls refuse(SYS_madvise, EINVAL);
    span = take_dense(8);
    EXPECT_GT(refuse.refusals(), 0u);
  }
  ASSERT_NE(span, nullptr);
  EXPECT_EQ(page_statistics().huge_pages, 0u);
  EXPECT_EQ(page_statistics().dirty_bytes, 0u);
  EXPECT_FALSE(huge_page_pacing.due());
  memset(memory(span), 1, span->bytes);
  release(span);
  release_all(spans);
}

TEST(HugePages, NoneWhenTurnedOff) {
  OptionForTest off(Id::huge_pages, "0");
  std::vector<Span*> spans = fill_many_regions();
  uint64_t calls = os::counters().huge_page_calls;
  Span* span = take_dense(8);
  EXPECT_EQ(os::counters().huge_page_calls, calls);
  release(span);
  release_all(spans);
}

// Regions are added and removed during a walk over all spans, and no thread waits until the walk is
// over.
TEST(ForEachSpan, VisitsEachStayingRegionOnceAndReleasesTheLock) {
  purge_all();
  std::atomic<unsigned> turns{0};
  std::atomic<bool> over{false};
  struct Walk {
    std::atomic<unsigned>& turns;
    std::map<const Span*, unsigned> seen;
    unsigned turns_at_first = 0;
    bool began = false, others_got_in = false;
  };
  std::vector<Span*> kept, between;
  for (int i = 0; i < 200; i++) {
    kept.push_back(take(kMaxRegionRunPages));
    if (i % 4 == 0) between.push_back(take(kMaxRegionRunPages));
  }
  std::thread other([&] {
    while (!over) {
      for (Span*& span : between) release(span), turns++;
      unmap_empty_regions();
      for (Span*& span : between) span = take(kMaxRegionRunPages), turns++;
    }
  });
  unsigned walks = 0, with_others = 0;
  // CPU time: on a busy machine the other thread rarely runs during a walk.
  for (uint64_t end = os::thread_cpu_ns() + 20 * kSecondNs;
       walks < 200 || (with_others < 5 && os::thread_cpu_ns() < end); walks++) {
    Walk walk{turns, {}};
    for (Span* span : kept) walk.seen[span] = 0;
    for_each_span(
        [](void* context, Span* span) {
          Walk& w = *static_cast<Walk*>(context);
          if (!w.began) w.turns_at_first = w.turns;
          w.began = true;
          // One turn may have had all locks that it needed.
          w.others_got_in |= w.turns - w.turns_at_first >= 2;
          if (auto found = w.seen.find(span); found != w.seen.end()) found->second++;
        },
        &walk);
    for (auto [span, times] : walk.seen) ASSERT_EQ(times, 1u) << "walk " << walks;
    with_others += walk.others_got_in;
  }
  EXPECT_GE(with_others, 5u);
  over = true;
  other.join();
  for (Span* span : kept) release(span);
  for (Span* span : between) release(span);
  purge_all();
  unmap_empty_regions();
}

TEST(Huge, KeepsAFreedMappingForTheNext) {
  Span* span = allocate_huge(3 * MiB + 5, kPageBytes);
  ASSERT_NE(span, nullptr);
  EXPECT_TRUE(span->known_zero);
  uintptr_t start = span->start;
  memory(span)[0] = 7;
  release_huge(span);
  uint64_t maps = os::counters().map_calls;
  span = allocate_huge(3 * MiB, kPageBytes);
  EXPECT_EQ(span->start, start);
  EXPECT_FALSE(span->known_zero);
  EXPECT_EQ(os::counters().map_calls, maps);
  release_huge(span);
  EXPECT_GE(purge_huge(UINT64_MAX), 3 * MiB);
  EXPECT_EQ(page_map.span_of(reinterpret_cast<void*>(start))->kind, SpanKind::kForeign);
}

TEST(Huge, GrowsWithoutCopyingAndKeepsItsContents) {
  Span* span = allocate_huge(2 * MiB, kPageBytes);
  for (size_t i = 0; i < span->bytes; i += 4096) memory(span)[i] = static_cast<char>(i >> 12);
  for (size_t bytes : {4 * MiB, 64 * MiB, 3 * MiB, 9 * MiB}) {
    ASSERT_TRUE(resize_huge(span, bytes));
    EXPECT_EQ(page_map.span_of(memory(span)), span);
    EXPECT_EQ(span->start % kPageBytes, 0u);
    for (size_t i = 0; i < 2 * MiB; i += 4096)
      ASSERT_EQ(memory(span)[i], static_cast<char>(i >> 12));
    memory(span)[bytes - 1] = 1;
  }
  release_huge(span);
}

TEST(Huge, HonoursLargeAlignments) {
  for (size_t alignment = kPageBytes; alignment <= 1 * GiB; alignment *= 4) {
    Span* span = allocate_huge(5 * MiB, alignment);
    ASSERT_NE(span, nullptr);
    EXPECT_EQ(span->start % alignment, 0u);
    release_huge(span);
  }
}

TEST(Huge, RefusedUnmapLosesNoMemory) {
  purge_huge(UINT64_MAX);
  Span* span = allocate_huge(3 * MiB, kPageBytes);
  memset(memory(span), 1, span->bytes);
  uintptr_t start = span->start;
  release_huge(span);
  {
    os::FailCalls refuse(SYS_munmap, ENOMEM);
    purge_huge(UINT64_MAX);
    EXPECT_GT(refuse.refusals(), 0u);
  }
  EXPECT_EQ(os::resident_bytes(reinterpret_cast<void*>(start), 3 * MiB), 0u)
      << "its memory went back";
  span = allocate_huge(3 * MiB, kPageBytes);
  EXPECT_EQ(span->start, start) << "its address space is used again";
  EXPECT_TRUE(span->known_zero);
  EXPECT_EQ(memory(span)[1 * MiB], 0);
  release_huge(span);
}

}  // namespace
}  // namespace seemalloc::pages

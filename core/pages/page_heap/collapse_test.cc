// Moving dense regions onto huge pages: which, when, how often, and that their contents stay the
// same. On a kernel without huge pages only the pacing and the refusals are tested.
#include "core/pages/page_heap/collapse.h"

#include <errno.h>
#include <gtest/gtest.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "core/base/option_for_test.h"
#include "core/base/seed_for_test.h"
#include "core/os/kernel/clock.h"
#include "core/os/kernel/fault.h"
#include "core/os/kernel/memory.h"
#include "core/os/kernel/waits_for_test.h"
#include "core/os/process/huge_page_setting.h"
#include "core/pages/page_heap/page_heap.h"
#include "core/pages/page_heap/purge.h"
#include "core/pages/page_heap/sweep.h"
#include "core/pages/policy/purge_policy.h"
#include "core/pages/span/memory_account.h"
#include "core/pages/span/region.h"
#include "core/pages/span/region_count.h"

namespace seemalloc::pages {
namespace {

using options::Id;
using options::OptionForTest;

// ---- pacing ----

constexpr uint64_t kNowNs = 1000 * kSecondNs;

constexpr uintptr_t kRegion = 1 << 30;

TEST(CollapsePacing, UnsupportedCollapseIsTriedOnThreeRegions) {
  CollapsePacing pacing;
  for (unsigned i = 0; i < 3; i++) {
    EXPECT_TRUE(pacing.due(kNowNs * (i + 1)));
    pacing.refused(EINVAL, kRegion + i * kRegionBytes, kNowNs * (i + 1));
  }
  EXPECT_FALSE(pacing.due(kNowNs * 1000));
}

TEST(CollapsePacing, ARegionThatCannotBeMovedIsNotTheKernel) {
  CollapsePacing pacing;
  uint64_t now = kNowNs;
  for (int i = 0; i < 20; i++, now += CollapsePacing::kMaxWaitNs) {
    pacing.refused(EINVAL, kRegion + i % 2 * kRegionBytes, now);
    pacing.refused(EBUSY, kRegion + (2 + i) * kRegionBytes, now);
  }
  EXPECT_TRUE(pacing.due(now));
  pacing.note_success();
  for (int i = 0; i < 20; i++, now += CollapsePacing::kMaxWaitNs)
    pacing.refused(EINVAL, kRegion + i * kRegionBytes, now);
  EXPECT_TRUE(pacing.due(now)) << "it has been done once";
}

TEST(CollapsePacing, WhereItHasWorkedARefusalIsNotForGood) {
  CollapsePacing pacing;
  pacing.note_success();
  pacing.refused(EINVAL, kRegion, kNowNs);
  EXPECT_FALSE(pacing.due(kNowNs));
  EXPECT_TRUE(pacing.due(kNowNs + CollapsePacing::kFirstWaitNs));
}

TEST(CollapsePacing, EachRefusalMakesTheWaitLongerUntilOneIsDone) {
  for (int error : {ENOMEM, EAGAIN, EBUSY}) {
    CollapsePacing pacing;
    uint64_t now = kNowNs, wait = CollapsePacing::kFirstWaitNs;
    for (int i = 0; i < 20; i++) {
      ASSERT_TRUE(pacing.due(now));
      pacing.refused(error, kRegion, now);
      EXPECT_FALSE(pacing.due(now + wait - 1));
      now += wait;
      wait = wait * 2 < CollapsePacing::kMaxWaitNs ? wait * 2 : CollapsePacing::kMaxWaitNs;
    }
    pacing.note_success();
    pacing.refused(error, kRegion, now);
    EXPECT_TRUE(pacing.due(now + CollapsePacing::kFirstWaitNs));
  }
}

TEST(CollapsePacing, ASettingIsReadAgainLater) {
  CollapsePacing pacing;
  pacing.disabled_by_system(kNowNs);
  EXPECT_FALSE(pacing.due(kNowNs + CollapsePacing::kForbiddenWaitNs - 1));
  EXPECT_TRUE(pacing.due(kNowNs + CollapsePacing::kForbiddenWaitNs));
}

// ---- regions ----

// Simulated clocks of the helper thread and of the program: half a second passes in each round.
uint64_t clock_ns = 0, worked_ns = 0;

void pass_rounds(unsigned rounds, uint64_t worked_per_round_ns = 400 * kMillisecondNs) {
  for (unsigned i = 0; i < rounds; i++) {
    clock_ns += 500 * kMillisecondNs;
    worked_ns += worked_per_round_ns;
    purge_budget.tick(clock_ns, worked_ns);
    collapse_dense_regions(clock_ns);
  }
}
// rounds: fewer than kDenseForNs takes, and more.
constexpr unsigned kSoon = 9, kLongEnough = 14;

uint64_t collapses() { return os::call_count(os::Call::kCollapse).calls; }

Span* take(size_t page_count, unsigned shard = 0) {
  Span* span = allocate_run(shard, page_count, 1, SpanKind::kLarge);
  span->set_live(1);
  publish(span);
  return span;
}

unsigned char* memory(const Span* span) { return reinterpret_cast<unsigned char*>(span->start); }
void fill(Span* span, unsigned seed) {
  for (size_t i = 0; i < span->bytes; i += sizeof(uint64_t))
    *reinterpret_cast<uint64_t*>(span->start + i) = (seed + i) * 0x9E3779B97F4A7C15u;
}
bool holds(const Span* span, unsigned seed) {
  for (size_t i = 0; i < span->bytes; i += sizeof(uint64_t)) {
    if (*reinterpret_cast<const uint64_t*>(span->start + i) != (seed + i) * 0x9E3779B97F4A7C15u)
      return false;
  }
  return true;
}
bool all_zero(const unsigned char* p, size_t bytes) {
  for (size_t i = 0; i < bytes; i++) {
    if (p[i] != 0) return false;
  }
  return true;
}

bool kernel_collapses() {
  static const bool answer = [] {
    os::HugePageSetting setting;
    bool allowed = setting.allows(os::monotonic_ns());
    void* p = os::map_aligned(kRegionBytes, kRegionBytes, os::Reason::kGrowth);
    memset(p, 1, kRegionBytes);
    bool works = allowed && os::set_huge_pages(p, kRegionBytes, true) &&
                 os::collapse_into_huge_pages(p, kRegionBytes) == 0;
    os::unmap(p, kRegionBytes, os::Reason::kGrowth);
    return works;
  }();
  return answer;
}

// A heap that is large enough, and one region in it whose runs of these lengths have been written
// to.
class Collapse : public testing::Test {
 protected:
  void SetUp() override {
    if (!kernel_collapses()) GTEST_SKIP() << "the kernel does not make huge pages of small ones";
    if (clock_ns == 0) clock_ns = os::coarse_monotonic_ns();
    clock_ns += 1000 * kSecondNs;  // ends every wait that an earlier test started
    purge_all();
    while (region_count() < 40) others.push_back(take(kMaxRegionRunPages));
    unsigned regions = region_count();
    while (region_count() == regions) others.push_back(take(kMaxRegionRunPages));
    // The other half of the last region: now all are full.
    others.push_back(take(kMaxRegionRunPages));
  }
  void TearDown() override {
    for (Span* span : others) release(span);
    for (Span* span : own) release(span);
    purge_all();
    if (kernel_collapses()) EXPECT_EQ(page_statistics().used_bytes, 0u);
  }

  // Creates a fresh region with runs of these lengths.
  Region* fresh(const std::vector<unsigned>& lengths) {
    for (unsigned pages : lengths) {
      own.push_back(take(pages));
      fill(own.back(), static_cast<unsigned>(own.size()));
    }
    for (Span* span : own) EXPECT_EQ(span->region, own[0]->region);
    return own[0]->region;
  }
  Region* fresh_full() {
    others.push_back(take(kMaxRegionRunPages));
    others.push_back(take(kMaxRegionRunPages));
    for (size_t i = others.size() - 2; i < others.size(); i++) fill(others[i], 1);
    EXPECT_EQ(others.back()->region, others[others.size() - 2]->region);
    return others.back()->region;
  }
  // Marks all its free pages as due.
  static void let_it_rest(Region* region) {
    region->due |= region->young;
    region->due |= region->old;
    region->young = region->old = PageBits();
    SweepState due;
    due.split_huge_pages = SplitHugePages::kSparse;
    sweep_all(&due);
    EXPECT_TRUE(region->resting);
  }
  void expect_contents() {
    for (size_t i = 0; i < own.size(); i++)
      EXPECT_TRUE(holds(own[i], static_cast<unsigned>(i + 1))) << i;
  }
  static void expect_books() {
    PageStatistics s = page_statistics();
    EXPECT_EQ(memory_account.bytes(), s.used_bytes + s.dirty_bytes);
  }

  std::vector<Span*> others, own;
};

TEST_F(Collapse, ARegionThatHasBeenDenseForAWhileIsMovedAsItIs) {
  Region* region = fresh({128, 116});
  pass_rounds(kSoon);
  EXPECT_FALSE(region->on_huge_page);
  pass_rounds(kLongEnough);
  EXPECT_TRUE(region->on_huge_page);
  EXPECT_FALSE(region->collapsing);
  EXPECT_EQ(page_statistics().huge_pages, 1u) << "the others are full, but unwritten";
  expect_contents();
  // The unallocated pages are resident now, read as zero, and are counted.
  EXPECT_EQ(page_statistics().dirty_bytes, 12 * kPageBytes);
  expect_books();
  uint64_t before = collapses();
  pass_rounds(kLongEnough * 4);
  EXPECT_EQ(collapses(), before) << "once";
  own.push_back(take(12));
  EXPECT_EQ(own.back()->region, region);
  EXPECT_TRUE(all_zero(memory(own.back()), own.back()->bytes));
}

TEST_F(Collapse, CollapsedPagesStayWhileTheRegionIsDense) {
  Region* region = fresh({128, 100, 16});
  pass_rounds(kSoon + kLongEnough);
  ASSERT_TRUE(region->on_huge_page);
  SweepState due{PageSelection::kDirty};
  due.split_huge_pages = SplitHugePages::kSparse;
  sweep_all(&due);
  EXPECT_EQ(due.purged_bytes, 0u);
  EXPECT_TRUE(region->on_huge_page);
  release(own.back());
  own.pop_back();
  sweep_all(&due);
  EXPECT_EQ(due.purged_bytes, 28 * kPageBytes);
  EXPECT_FALSE(region->on_huge_page);
  expect_contents();
  expect_books();
}

TEST_F(Collapse, UnderALimitOneAtATime) {
  std::vector<Region*> regions;
  for (int i = 0; i < 3; i++) regions.push_back(fresh_full());
  size_t no_limit = smallest_limit.exchange(memory_account.total_bytes() * 2);
  pass_rounds(kSoon);
  unsigned moved = 0, most = 0;
  for (unsigned i = 0; i < kLongEnough; i++) {
    pass_rounds(1);
    unsigned now = 0;
    for (Region* region : regions) now += region->on_huge_page;
    most = now - moved > most ? now - moved : most;
    moved = now;
  }
  smallest_limit = no_limit;
  EXPECT_EQ(moved, 3u);
  EXPECT_EQ(most, 1u);
}

// In the parent, a move would copy all of it.
TEST_F(Collapse, PagesSharedWithAForkedChildAreNotMoved) {
  Region* region = fresh({128, 116});
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  int child = fork();
  if (child == 0) {
    close(ends[1]);
    char byte;
    _exit(read(ends[0], &byte, 1) == 0 ? 0 : 1);
  }
  close(ends[0]);
  uint64_t before = collapses();
  pass_rounds(kSoon + kLongEnough);
  EXPECT_EQ(collapses(), before);
  EXPECT_FALSE(region->on_huge_page);
  close(ends[1]);
  waitpid(child, nullptr, 0);
  pass_rounds(2 * kLongEnough);
  EXPECT_TRUE(region->on_huge_page) << "it is no longer shared";
  expect_contents();
}

// Free pages of a dense huge page cause no work until they are allocated, requested, or the region
// is no longer dense.
TEST_F(Collapse, RestingRegionCausesNoWork) {
  Region* region = fresh({128, 100, 16});
  pass_rounds(kSoon + kLongEnough);
  ASSERT_TRUE(region->on_huge_page);
  EXPECT_TRUE(has_dirty_memory());
  let_it_rest(region);
  EXPECT_FALSE(has_dirty_memory());
  EXPECT_EQ(page_statistics().dirty_bytes, 12 * kPageBytes);
  expect_books();
  Span* span = take(5);
  EXPECT_EQ(span->region, region);
  release(span);
  EXPECT_TRUE(region->resting) << "it has been dense all the time";
  EXPECT_FALSE(has_dirty_memory());
  EXPECT_EQ(page_statistics().dirty_bytes, 12 * kPageBytes);
  release(own.back());
  own.pop_back();
  EXPECT_FALSE(region->resting);
  EXPECT_TRUE(has_dirty_memory());
  fresh({16});
  let_it_rest(region);
  EXPECT_EQ(purge_all(), 12 * kPageBytes) << "on request";
  EXPECT_FALSE(region->resting);
  EXPECT_FALSE(region->on_huge_page);
  expect_contents();
  expect_books();
}

TEST_F(Collapse, TheNextTimeItWaitsForLonger) {
  Region* region = fresh({128, 100, 28});
  pass_rounds(kSoon + kLongEnough);
  ASSERT_TRUE(region->on_huge_page);
  release(own.back());
  own.pop_back();
  purge_all();
  ASSERT_FALSE(region->on_huge_page);
  fresh({28});
  pass_rounds(kLongEnough);
  EXPECT_FALSE(region->on_huge_page);
  pass_rounds(kLongEnough);
  EXPECT_TRUE(region->on_huge_page);
  expect_contents();
}

TEST_F(Collapse, SparseRegionsKeepSmallPages) {
  Region* region = fresh({128, 115});
  uint64_t before = collapses();
  pass_rounds(200);
  EXPECT_FALSE(region->on_huge_page);
  EXPECT_EQ(collapses(), before);
}

TEST_F(Collapse, ChangingRegionsKeepSmallPages) {
  Region* region = fresh({128, 100, 28});
  uint64_t before = collapses();
  for (int i = 0; i < 100; i++) {
    pass_rounds(2);
    release(own.back());
    own.pop_back();
    fresh({28});
  }
  EXPECT_FALSE(region->on_huge_page);
  EXPECT_EQ(collapses(), before);
  pass_rounds(kSoon + kLongEnough);
  EXPECT_TRUE(region->on_huge_page) << "now it is calm";
  expect_contents();
}

std::atomic<unsigned> questions;
long count_questions(long number) {
  questions += number == SYS_pread64;
  return 0;
}

TEST_F(Collapse, UnwrittenRegionsKeepSmallPages) {
  uint64_t before = collapses();
  questions = 0;
  os::fault_hook = count_questions;
  pass_rounds(400);
  os::fault_hook = nullptr;
  EXPECT_EQ(collapses(), before);
  EXPECT_GT(questions, 0u);
  EXPECT_LE(questions, region_count() * 6 + 2 * 400)
      << "each is checked after 5, 10, 20, … s; and the setting in each round";
}

TEST_F(Collapse, NoneWhereItIsNotWanted) {
  Region* region = fresh({128, 116});
  uint64_t before = collapses();
  {
    OptionForTest off(Id::huge_pages, "0");
    pass_rounds(100);
  }
  for (const char* mode : {"eager", "never"}) {
    OptionForTest other(Id::purge, mode);
    pass_rounds(100);
  }
  size_t no_limit = smallest_limit.exchange(memory_account.total_bytes() * 10 / 8);
  pass_rounds(100);
  smallest_limit = no_limit;
  under_memory_pressure = true;
  pass_rounds(100);
  under_memory_pressure = false;
  pass_rounds(100, kMillisecondNs);  // the program is idle
  {
    OptionForTest limit(Id::heap_limit,
                        std::to_string(memory_account.total_bytes() + 11 * kPageBytes).c_str());
    uint64_t refusals = memory_account.refusals();
    pass_rounds(100);
    EXPECT_EQ(memory_account.refusals(), refusals) << "the program has been refused nothing";
  }
  EXPECT_EQ(collapses(), before);
  expect_books();
  pass_rounds(kSoon + kLongEnough);
  EXPECT_TRUE(region->on_huge_page);
}

TEST_F(Collapse, ASmallHeapKeepsItsSmallPages) {
  Region* region = fresh({128, 116});
  for (Span* span : others) release(span);
  others.clear();
  unmap_empty_regions();
  ASSERT_LT(region_count(), 32u);
  uint64_t before = collapses();
  pass_rounds(200);
  EXPECT_FALSE(region->on_huge_page);
  EXPECT_EQ(collapses(), before);
}

// ---- refusals ----

std::atomic<unsigned> advices, refused;
std::atomic<int> refuse_with;
// Refuses the middle one of the three calls for a region.
long refuse_to_collapse(long number) {
  if (number != SYS_madvise || ++advices % 3 != 2) return 0;
  refused++;
  return -refuse_with;
}

TEST_F(Collapse, RefusedCollapseIsRetried) {
  fresh({128, 116});
  pass_rounds(kSoon + kLongEnough);
  ASSERT_TRUE(own[0]->region->on_huge_page) << "so that this kernel is known to do it";
  for (int error : {EINVAL, ENOMEM, EAGAIN, EBUSY}) {
    clock_ns += 1000 * kSecondNs;
    for (Span* span : own) release(span);
    own.clear();
    purge_all();
    Region* region = fresh({128, 116});
    region->collapse_attempts = 0;
    region->dense_since_ns = 0;
    refuse_with = error;
    advices = refused = 0;
    os::fault_hook = refuse_to_collapse;
    pass_rounds(200);
    os::fault_hook = nullptr;
    EXPECT_GE(refused, 1u) << error;
    EXPECT_LE(refused, 7u) << error << ": of a hundred seconds, 5 + 10 + 20 + 40";
    EXPECT_FALSE(region->on_huge_page);
    EXPECT_EQ(page_statistics().dirty_bytes, 0u);
    expect_books();
    expect_contents();
    pass_rounds(400);
    EXPECT_TRUE(region->on_huge_page) << error;
    expect_contents();
  }
}

TEST_F(Collapse, WithoutAnAnswerAboutResidencyThereIsNone) {
  Region* region = fresh({128, 116});
  pass_rounds(1);  // reads the system's setting
  close_collapse_file_in_child();
  os::FailCalls refuse(SYS_openat, EPERM);
  pass_rounds(100);
  EXPECT_GT(refuse.refusals(), 0u);
  EXPECT_FALSE(region->on_huge_page);
  expect_books();
}

// ---- concurrent changes ----

std::vector<Span*>* freed_meanwhile = nullptr;
// Frees and purges the whole region while the kernel is about to move it and memory runs out.
long free_all_when_collapsing(long number) {
  if (number != SYS_madvise || ++advices != 2) return 0;
  os::fault_hook = nullptr;
  for (Span* span : *freed_meanwhile) release(span);
  freed_meanwhile->clear();
  purge_all();
  unmap_empty_regions();
  return 0;
}

TEST_F(Collapse, ARegionThatIsFreedMeanwhileStaysMapped) {
  Region* region = fresh({128, 116});
  unsigned regions = region_count();
  freed_meanwhile = &own;
  advices = 0;
  os::fault_hook = free_all_when_collapsing;
  pass_rounds(kSoon + kLongEnough);
  ASSERT_TRUE(own.empty()) << "it was tried";
  EXPECT_EQ(region_count(), regions);
  EXPECT_FALSE(region->collapsing);
  EXPECT_EQ(page_statistics().dirty_bytes, region->on_huge_page ? kRegionBytes : 0);
  expect_books();
  Span* span = take(128);
  ASSERT_EQ(span->region, region);
  EXPECT_TRUE(!span->known_zero || all_zero(memory(span), span->bytes));
  release(span);
  purge_all();
  expect_books();
  unmap_empty_regions();
  EXPECT_EQ(region_count(), regions - 1);
}

// Forks before the kernel moves a region (the second call for it) or after (the third).
unsigned fork_at = 2;
long fork_when_collapsing(long number) {
  if (number != SYS_madvise || ++advices != fork_at) return 0;
  os::fault_hook = nullptr;
  lock_for_fork();
  int child = fork();
  unlock_after_fork(child == 0);
  if (child == 0) {
    PageStatistics s = page_statistics();
    bool counted = memory_account.bytes() == s.used_bytes + s.dirty_bytes;
    size_t brought = fork_at == 2 ? 0 : 12 * kPageBytes;
    bool entered = s.dirty_bytes == brought && s.huge_pages == (brought != 0);
    bool gone = purge_all() == brought && page_statistics().dirty_bytes == 0;
    _exit(counted && entered && gone && memory_account.bytes() == s.used_bytes ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0) << "no other thread of the child would end it";
  return 0;
}

TEST_F(Collapse, CollapseUnderWayEndsInAForkedChild) {
  for (unsigned at : {2, 3}) {
    fork_at = at;
    Region* region = fresh({128, 116});
    region->collapse_attempts = 0;
    region->dense_since_ns = 0;
    pass_rounds(kSoon);
    advices = 0;
    os::fault_hook = fork_when_collapsing;
    pass_rounds(kLongEnough);
    EXPECT_EQ(os::fault_hook.load(), nullptr) << "it was tried";
    EXPECT_TRUE(region->on_huge_page);
    expect_contents();
    expect_books();
    for (Span* span : own) release(span);
    own.clear();
    purge_all();
  }
}

// Purges holes of a span before or after the kernel moves its region.
Span* part_goes_of = nullptr;
unsigned part_unmap_fails_at = 2;
long purge_part_when_collapsing(long number) {
  if (number != SYS_madvise || ++advices != part_unmap_fails_at) return 0;
  os::fault_hook = nullptr;
  EXPECT_TRUE(is_on_huge_page(part_goes_of)) << "it may by now";
  EXPECT_TRUE(begin_huge_page_split(part_goes_of)) << "it has to be split by now";
  os::split_huge_page(memory(part_goes_of), kPageBytes);
  EXPECT_TRUE(os::purge(memory(part_goes_of), kPageBytes, os::Reason::kHole));
  return 0;
}

TEST_F(Collapse, RegionSplitMeanwhileIsNotOnAHugePage) {
  for (unsigned at : {2, 3}) {
    part_unmap_fails_at = at;
    Region* region = fresh({128, 116});
    region->collapse_attempts = 0;
    region->dense_since_ns = 0;
    pass_rounds(kSoon);
    part_goes_of = own[0];
    advices = 0;
    os::fault_hook = purge_part_when_collapsing;
    pass_rounds(kLongEnough);
    EXPECT_EQ(os::fault_hook.load(), nullptr) << "it was tried";
    EXPECT_FALSE(region->on_huge_page);
    EXPECT_FALSE(is_on_huge_page(own[0]));
    EXPECT_EQ(page_statistics().dirty_bytes, 12 * kPageBytes);
    expect_books();
    fill(own[0], 1);
    pass_rounds(2 * kLongEnough);
    EXPECT_TRUE(region->on_huge_page) << "the next time it does";
    expect_contents();
    for (Span* span : own) release(span);
    own.clear();
    purge_all();
  }
}

// ---- under load ----

// Threads write, check, release and purge runs in regions that are repeatedly moved.
TEST_F(Collapse, ContentsStayWhileOthersWriteFreeAndPurge) {
  unsigned seed = seed_for_test();
  SCOPED_TRACE(seed);
  uint64_t before = collapses();
  std::atomic<bool> done{false};
  Progress operations;
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 3; t++) {
    threads.emplace_back([&, t] {
      std::mt19937 random(seed + t);
      // A few regions' worth. Most of it stays allocated, so that the regions are dense.
      std::vector<std::pair<Span*, unsigned>> mine(64);
      for (auto& [span, fill_seed] : mine) fill(span = take(12, t), fill_seed = random());
      for (; !done; operations.advance()) {
        auto& [span, fill_seed] = mine[random() % (random() % 8 == 0 ? mine.size() : 4)];
        ASSERT_TRUE(holds(span, fill_seed));
        if (random() % 2 == 0) {
          release(span);
          if (random() % 16 == 0) purge_all();
          span = take(12, t);
          if (span->known_zero) ASSERT_TRUE(all_zero(memory(span), span->bytes));
        }
        fill(span, fill_seed = random());
      }
      for (auto& [span, fill_seed] : mine) {
        EXPECT_TRUE(holds(span, fill_seed));
        release(span);
      }
    });
  }
  // Long rounds: each sees the state that the one before left.
  for (int i = 0; i < 300; i++) {
    clock_ns += 5000 * kSecondNs;
    pass_rounds(1, 5000 * kSecondNs);
    operations.wait_for_more(100);
  }
  done = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(collapses(), before);
  expect_books();
}

}  // namespace
}  // namespace seemalloc::pages

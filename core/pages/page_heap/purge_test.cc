// Automatic purging: the modes, refaults, floor, cap, memory left to the kernel, refusals, and
// options that change under load. page_heap_test checks the counters against a model in each mode.
#include "core/pages/page_heap/purge.h"

#include <gtest/gtest.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <new>
#include <random>
#include <thread>
#include <vector>

#include "core/base/option_for_test.h"
#include "core/base/seed_for_test.h"
#include "core/os/kernel/clock.h"
#include "core/os/kernel/fault.h"
#include "core/os/kernel/memory.h"
#include "core/os/kernel/waits_for_test.h"
#include "core/pages/huge/huge.h"
#include "core/pages/page_heap/page_heap.h"
#include "core/pages/page_heap/sweep.h"
#include "core/pages/policy/purge_policy.h"
#include "core/pages/policy/refaults.h"
#include "core/pages/span/region.h"

namespace seemalloc::pages {
namespace {

using options::Id;
using options::OptionForTest;

constexpr const char* kHourMs = "3600000";

Span* take(size_t page_count, unsigned shard = 0) {
  Span* span = allocate_run(shard, page_count, 1, SpanKind::kLarge);
  span->set_live(1);
  publish(span);
  return span;
}

char* memory(const Span* span) { return reinterpret_cast<char*>(span->start); }
Span* written(size_t page_count) {
  Span* span = take(page_count);
  memset(memory(span), 1, span->bytes);
  return span;
}

size_t dirty_bytes() { return page_statistics().dirty_bytes; }
size_t resident(uintptr_t start, size_t bytes) {
  return os::resident_bytes(reinterpret_cast<void*>(start), bytes);
}

using os::advance_test_clock;
constexpr uint64_t kStepNs = 5 * kMillisecondNs;

// Ticks until nothing is dirty. Returns false when that takes far longer than it should.
bool tick_until_clean() {
  for (int i = 0; i < 2000; i++) {
    tick();
    if (dirty_bytes() == 0) return true;
    advance_test_clock(kStepNs);
  }
  return false;
}

void tick_for(uint64_t ns) {
  for (uint64_t passed = 0; passed < ns; passed += kStepNs) {
    tick();
    advance_test_clock(kStepNs);
  }
}

class Purge : public testing::Test {
 protected:
  void SetUp() override {
    advance_test_clock(kStepNs);  // from here on the clock is simulated
    purge_all();
  }
  void TearDown() override { purge_all(); }
};

// ---- the budget ----

void work_and_tick() {
  os::test_cpu_ns += kMillisecondNs;  // with a twentieth of a CPU, the process is not idle
  advance_test_clock(2 * kMillisecondNs);
  tick();
}

TEST_F(Purge, DuePagesWaitForTheBudgetWhileBusy) {
  OptionForTest delay(Id::purge_delay, "40");
  for (int i = 0; i < 60; i++) work_and_tick();
  ASSERT_FALSE(purge_budget.idle());
  purge_budget.spent(100 * kSecondNs);
  for (int i = 0; i < 60; i++) work_and_tick();
  ASSERT_FALSE(purge_budget.may_spend());
  std::vector<Span*> spans;
  for (int i = 0; i < 4; i++) spans.push_back(written(100));
  for (Span* span : spans) release(span);
  size_t dirty = dirty_bytes();
  ASSERT_GE(dirty, 400 * kPageBytes);
  uint64_t postponed = purge_statistics().postponed;
  for (int i = 0; i < 200; i++) work_and_tick();  // ten delays
  EXPECT_EQ(dirty_bytes(), dirty);
  EXPECT_GT(purge_statistics().postponed, postponed);
  new (&purge_budget) PurgeBudget;
  for (int i = 0; i < 1000 && dirty_bytes() != 0; i++) work_and_tick();
  EXPECT_EQ(dirty_bytes(), 0u) << "there is some again";
}

// ---- modes ----

// Freeing in address order costs system calls in proportion to the bytes, not to their square (the
// O(N²) of merged neighbours): each page is purged once, and one call covers 64 KiB.
TEST_F(Purge, EagerOrderedFreesGiveEachByteBackOnceInFewCalls) {
  OptionForTest mode(Id::purge, "eager");
  std::vector<Span*> spans;
  for (int i = 0; i < 2000; i++) spans.push_back(written(1));
  os::Counters before = os::counters();
  for (Span* span : spans) {
    release(span);
    tick();
  }
  // In addition, smaller ranges at the end of each region and every tenth of a second.
  EXPECT_LE(os::counters().purge_calls - before.purge_calls, 2000 / 8 + 50u);
  EXPECT_LE(dirty_bytes(), 50 * 8 * kPageBytes) << "most of it went at once";
  purge_all();
  EXPECT_EQ(os::counters().purge_bytes - before.purge_bytes, 2000 * kPageBytes);
}

TEST_F(Purge, EagerModePurgesSmallRunsLater) {
  OptionForTest mode(Id::purge, "eager");
  std::vector<Span*> spans;
  for (int i = 0; i < 400; i++) spans.push_back(written(1));
  for (size_t i = 0; i < spans.size(); i += 2) release(spans[i]);
  tick();
  EXPECT_GT(dirty_bytes(), 100 * kPageBytes) << "one call each would be too many";
  EXPECT_TRUE(tick_until_clean());
  for (size_t i = 1; i < spans.size(); i += 2) release(spans[i]);
}

TEST_F(Purge, ADelayOfNothingIsEager) {
  OptionForTest delay(Id::purge_delay, "0");
  EXPECT_EQ(purge_mode(), options::Purge::kEager);
  release(written(64));
  tick();
  EXPECT_EQ(dirty_bytes(), 0u);
  OptionForTest never(Id::purge, "never");
  EXPECT_EQ(purge_mode(), options::Purge::kNever);
}

TEST_F(Purge, EagerKeepsNoHugeMemory) {
  OptionForTest mode(Id::purge, "eager");
  release_huge(allocate_huge(4 * MiB, kPageBytes));
  EXPECT_EQ(huge_statistics().cached_bytes, 0u);
}

TEST_F(Purge, NeverGivesBackOnRequestOnly) {
  OptionForTest mode(Id::purge, "never"), delay(Id::purge_delay, "1");
  Span* span = written(100);
  Span* huge = allocate_huge(100 * MiB, kPageBytes);
  release(span);
  release_huge(huge);
  tick_for(100 * kMillisecondNs);
  EXPECT_EQ(dirty_bytes(), 100 * kPageBytes);
  EXPECT_EQ(huge_statistics().cached_bytes, 100 * MiB);
  EXPECT_EQ(purge_all(), 100 * kPageBytes + 100 * MiB);
}

TEST_F(Purge, AModeThatChangesCountsAtOnce) {
  OptionForTest mode(Id::purge, "never"), delay(Id::purge_delay, kHourMs);
  release(written(100));
  tick_for(20 * kMillisecondNs);
  ASSERT_EQ(dirty_bytes(), 100 * kPageBytes);
  {
    OptionForTest balanced(Id::purge, "balanced");
    tick_for(60 * kMillisecondNs);
    EXPECT_EQ(dirty_bytes(), 100 * kPageBytes) << "the hour is not over";
    OptionForTest shorter(Id::purge_delay, "10");
    EXPECT_TRUE(tick_until_clean()) << "though a wait of half an hour had begun";
  }
  release(written(100));
  OptionForTest eager(Id::purge, "eager");
  EXPECT_TRUE(tick_until_clean()) << "memory that was freed before";
}

// ---- the helper thread ----

TEST_F(Purge, TheProgramsThreadsLeaveItToTheHelperUnlessItIsLate) {
  OptionForTest delay(Id::purge_delay, "100");
  release(written(100));
  announce_helper_tick(50 * kMillisecondNs);
  tick_for(140 * kMillisecondNs);
  EXPECT_EQ(dirty_bytes(), 100 * kPageBytes);
  EXPECT_LE(next_tick_in_ns(), 50 * kMillisecondNs);
  for (int i = 0; i < 100 && dirty_bytes() != 0; i++) {
    tick(true);
    advance_test_clock(20 * kMillisecondNs);
  }
  EXPECT_EQ(dirty_bytes(), 0u);
  EXPECT_EQ(next_tick_in_ns(), UINT64_MAX);
  release(written(100));
  EXPECT_TRUE(tick_until_clean()) << "it has not come";
}

// ---- refaults ----

TEST_F(Purge, ReuseSoonAfterPurgeIsARefault) {
  OptionForTest delay(Id::purge_delay, "300");
  release(written(100));
  ASSERT_TRUE(tick_until_clean());
  uint64_t before = refaults().bytes;
  Span* span = written(100);
  EXPECT_EQ(refaults().bytes - before, 100 * kPageBytes);
  release(span);
  span = written(100);
  EXPECT_EQ(refaults().bytes - before, 100 * kPageBytes)
      << "once, without the pages that were still resident";
  release(span);
}

// Eager mode purges immediately, so the helper thread finds nothing dirty and sleeps for longer
// than a window.
TEST_F(Purge, RefaultsAreCountedWhileTheHelperSleeps) {
  OptionForTest eager(Id::purge, "eager");
  constexpr int kRounds = 400, kRoundsPerSleep = 50;
  release(written(100));
  tick_for(10 * kMillisecondNs);
  uint64_t before = refaults().bytes;
  for (int round = 0; round < kRounds; round++) {
    if (round % kRoundsPerSleep == 0) {
      tick(true);
      announce_helper_tick(510 * kMillisecondNs);
    }
    release(written(100));
    tick_for(10 * kMillisecondNs);
  }
  EXPECT_GT(refaults().bytes - before, kRounds * 100 * kPageBytes * 95 / 100);
  // The helper thread's promise and the earlier purges expire.
  advance_test_clock(1000 * kMillisecondNs);
}

TEST_F(Purge, LateReuseIsNoRefault) {
  OptionForTest delay(Id::purge_delay, "20");
  uint64_t before = refaults().bytes;
  release(written(100));
  ASSERT_TRUE(tick_until_clean());
  tick_for(300 * kMillisecondNs);
  release(written(100));
  ASSERT_TRUE(tick_until_clean());
  advance_test_clock(300 * kMillisecondNs);  // no thread ticks
  release(written(100));
  EXPECT_EQ(refaults().bytes, before);
}

// Covers pages and huge memory: such refaults are reported, but a longer delay would not have
// avoided them.
TEST_F(Purge, RequestedPurgeIsARefaultButNotOfTheDelay) {
  OptionForTest delay(Id::purge_delay, "300");
  tick_for(1000 * kMillisecondNs);  // a window is under way
  Refaults before = refaults();
  release(written(100));
  purge_all();
  release(written(100));
  EXPECT_EQ(refaults().bytes - before.bytes, 100 * kPageBytes);
  EXPECT_EQ(refaults().delayed_bytes, before.delayed_bytes);
  before = refaults();
  release_huge(allocate_huge(4 * MiB, kPageBytes));
  purge_all();
  release_huge(allocate_huge(4 * MiB, kPageBytes));
  EXPECT_EQ(refaults().bytes - before.bytes, 4 * MiB);
  EXPECT_EQ(refaults().delayed_bytes, before.delayed_bytes);
  // Later purges by the delay are counted as before.
  release(written(100));
  ASSERT_TRUE(tick_until_clean());
  before = refaults();
  release(written(100));
  EXPECT_EQ(refaults().delayed_bytes - before.delayed_bytes, 100 * kPageBytes);
}

TEST_F(Purge, EagerHugeMemoryRefaults) {
  OptionForTest eager(Id::purge, "eager");
  release_huge(allocate_huge(4 * MiB, kPageBytes));
  Refaults before = refaults();
  release_huge(allocate_huge(4 * MiB, kPageBytes));
  EXPECT_EQ(refaults().bytes - before.bytes, 4 * MiB);
  EXPECT_EQ(refaults().runs - before.runs, 1u);
  // A growing block leaves ranges behind that it cannot reuse.
  release_huge(allocate_huge(8 * MiB, kPageBytes));
  EXPECT_EQ(refaults().bytes - before.bytes, 4 * MiB);
  EXPECT_EQ(refaults().delayed_bytes, before.delayed_bytes);
}

TEST_F(Purge, HugeMemoryRefaultsToo) {
  OptionForTest delay(Id::purge_delay, "300");
  Span* span = allocate_huge(4 * MiB, kPageBytes);
  memset(memory(span), 1, span->bytes);
  release_huge(span);
  uint64_t before = refaults().bytes;
  for (int i = 0; i < 1000 && huge_statistics().cached_bytes != 0; i++)
    tick_for(10 * kMillisecondNs);
  ASSERT_EQ(huge_statistics().cached_bytes, 0u);
  release_huge(allocate_huge(3 * MiB, kPageBytes));
  EXPECT_EQ(refaults().bytes - before, 3 * MiB);
}

// Frees memory, has it purged and reuses it, until the delay has grown or far more time has passed
// than needed.
uint64_t delay_after_refaults(uint64_t first_ns) {
  for (uint64_t end = os::monotonic_ns() + 20 * kSecondNs;
       purge_delay_ns() <= first_ns && os::monotonic_ns() < end;) {
    Span* spans[] = {written(200), written(200)};
    for (Span* span : spans) release(span);
    if (!tick_until_clean()) break;
  }
  return purge_delay_ns();
}

TEST_F(Purge, ADelayThatWasChosenAdaptsAgainOnceItIsAuto) {
  FixedText<256> problem;
  ASSERT_TRUE(options::set(Id::purge_delay, "100", 3, problem));
  EXPECT_EQ(purge_delay_ns(), 100 * kMillisecondNs);
  EXPECT_TRUE(options::set(Id::purge_delay, "auto", 4, problem)) << problem.c_str();
  uint64_t first_ns = purge_delay_ns();
  EXPECT_GT(delay_after_refaults(first_ns), first_ns);
}

// ---- floor and cap ----

TEST_F(Purge, BusyProcessKeepsALittleIdleOneDoesNot) {
  OptionForTest delay(Id::purge_delay, "20");
  Span* fence = take(1);
  Span* little = written(10);
  Span* fence2 = take(1);
  release(little);
  for (int i = 0; i < 60; i++) {  // does not fit where `little` was
    release(take(20));
    tick();
    advance_test_clock(kStepNs);
  }
  EXPECT_GE(dirty_bytes(), 10 * kPageBytes);
  EXPECT_TRUE(tick_until_clean());
  release(fence);
  release(fence2);
}

// Free memory that does not fit the requests is at most half of the memory in use, whatever the
// delay.
TEST_F(Purge, FreeMemoryIsAShareOfLiveMemory) {
  OptionForTest delay(Id::purge_delay, kHourMs);
  constexpr size_t kGroups = 32 * MiB / kPageBytes;
  std::vector<Span*> kept, freed;
  for (size_t i = 0; i < kGroups; i++) {
    kept.push_back(take(1));
    freed.push_back(take(3));
  }
  for (Span* span : freed) release(span);
  tick_for(120 * kMillisecondNs);
  EXPECT_EQ(dirty_bytes(), 96 * MiB) << "it was in use a short while ago";
  for (size_t i = 0; i < kGroups * 3 / 4; i++) kept.push_back(take(4));
  tick_for(120 * kMillisecondNs);
  EXPECT_LE(dirty_bytes(), 65 * MiB);
  EXPECT_GE(dirty_bytes(), 60 * MiB) << "and not more than has to go";
  for (Span* span : kept) release(span);
}

// The share also limits free memory that was in use a short while ago, and small amounts.
TEST_F(Purge, FreeMemoryIsTheConfiguredShareOfLiveMemory) {
  OptionForTest delay(Id::purge_delay, kHourMs), ratio(Id::free_ratio, "8");
  constexpr size_t kGroups = 32 * MiB / kPageBytes;
  std::vector<Span*> kept, freed;
  for (size_t i = 0; i < kGroups; i++) {
    kept.push_back(take(1));
    freed.push_back(take(1));
  }
  for (Span* span : freed) release(span);
  tick_for(120 * kMillisecondNs);
  EXPECT_LE(dirty_bytes(), 4 * MiB) << "an eighth of the memory in use";
  EXPECT_GE(dirty_bytes(), 3 * MiB) << "and not more than has to go";
  for (Span* span : kept) release(span);
  tick_for(120 * kMillisecondNs);
  EXPECT_LE(dirty_bytes(), kRegionBytes);
  EXPECT_GE(dirty_bytes(), kRegionBytes / 2) << "this much is always allowed";
}

// ---- huge pages ----

TEST_F(Purge, HugePagesAreSplitLast) {
  std::vector<Span*> spans;
  for (int i = 0; i < 8; i++) spans.push_back(written(128));
  size_t first = spans[0]->region == spans[1]->region ? 0 : 1;
  Span *whole = spans[first], *part = spans[first + 2], *small = spans[first + 4];
  whole->region->on_huge_page = part->region->on_huge_page = true;
  uintptr_t part_start = part->start;
  Region* part_region = part->region;
  for (Span* span : {whole, spans[first + 1], part, small}) release(span);
  SweepState s{PageSelection::kDirty};
  s.split_huge_pages = SplitHugePages::kNone;
  sweep_all(&s);
  EXPECT_EQ(s.purged_bytes, (256 + 128) * kPageBytes);
  EXPECT_EQ(resident(part_start, 128 * kPageBytes), 128 * kPageBytes);
  s.split_huge_pages = SplitHugePages::kSparse;
  sweep_all(&s);
  EXPECT_EQ(dirty_bytes(), 0u);
  EXPECT_FALSE(part_region->on_huge_page);
  for (Span* span : spans) {
    bool released = span == whole || span == spans[first + 1] || span == part || span == small;
    if (!released) release(span);
  }
}

TEST_F(Purge, FreePartOfADenseHugePageStays) {
  OptionForTest delay(Id::purge_delay, "10");
  std::vector<Span*> spans;
  for (int i = 0; i < 2; i++) spans.push_back(written(128));
  while (spans[spans.size() - 2]->region != spans.back()->region) spans.push_back(written(128));
  Region* region = spans.back()->region;
  region->on_huge_page = true;
  shrink(spans.back(), 116);
  tick_for(100 * kMillisecondNs);
  EXPECT_EQ(dirty_bytes(), 12 * kPageBytes);
  EXPECT_TRUE(region->on_huge_page);
  {
    OptionForTest mode(Id::purge, "eager");
    EXPECT_TRUE(tick_until_clean()) << "memory counts more";
  }
  EXPECT_FALSE(region->on_huge_page);
  region->on_huge_page = true;
  shrink(spans.back(), 115);
  EXPECT_TRUE(tick_until_clean()) << "it is not dense any more";
  EXPECT_FALSE(region->on_huge_page);
  for (Span* span : spans) release(span);
}

// The run was freed and noted in eager mode, but no thread ticked before the mode had been another
// one for a while.
TEST_F(Purge, ImmediateRunOfARestingRegion) {
  OptionForTest delay(Id::purge_delay, "10");
  std::vector<Span*> spans;
  for (int i = 0; i < 2; i++) spans.push_back(written(128));
  while (spans[spans.size() - 2]->region != spans.back()->region) spans.push_back(written(128));
  Region* region = spans.back()->region;
  for (bool refused : {false, true}) {
    region->on_huge_page = true;
    {
      OptionForTest mode(Id::purge, "eager");
      shrink(spans.back(), 116);
    }
    tick_for(100 * kMillisecondNs);
    ASSERT_TRUE(region->immediate);
    ASSERT_TRUE(region->resting);
    OptionForTest mode(Id::purge, "eager");
    if (refused) {
      os::FailCalls refuse(SYS_madvise, EAGAIN);
      sweep_immediate();
      ASSERT_GT(refuse.refusals(), 0u);
      ASSERT_FALSE(region->resting);
      EXPECT_TRUE(has_dirty_memory());
    } else {
      EXPECT_EQ(sweep_immediate(), 12 * kPageBytes);
    }
    ASSERT_TRUE(tick_until_clean());
    ASSERT_FALSE(has_dirty_memory()) << "the shard's count goes wrong for good";
    ASSERT_TRUE(try_extend(spans.back(), 128));
  }
  for (Span* span : spans) release(span);
}

// ---- left to the kernel ----

TEST_F(Purge, LazilyPurgedPagesAreNotZero) {
  OptionForTest lazily(Id::purge_free, "1"), delay(Id::purge_delay, "10");
  Span* span = written(100);
  uintptr_t start = span->start;
  release(span);
  ASSERT_TRUE(tick_until_clean());
  EXPECT_EQ(page_statistics().lazy_bytes, 100 * kPageBytes);
  span = take(40);
  ASSERT_EQ(span->start, start);
  EXPECT_FALSE(span->known_zero);
  memset(memory(span), 2, span->bytes);
  EXPECT_EQ(page_statistics().lazy_bytes, 60 * kPageBytes);
  release(span);
  EXPECT_EQ(purge_all(), 100 * kPageBytes) << "asked for, it goes at once";
  EXPECT_EQ(resident(start, 100 * kPageBytes), 0u);
  EXPECT_EQ(page_statistics().lazy_bytes, 0u);
  span = take(100);
  EXPECT_TRUE(span->known_zero);
  EXPECT_EQ(memory(span)[0], 0);
  release(span);
}

// ---- refusals ----

TEST_F(Purge, RefusedPagesStayDirtyAndAreRetried) {
  for (const char* mode : {"balanced", "eager"}) {
    OptionForTest purge(Id::purge, mode), delay(Id::purge_delay, "10");
    std::vector<Span*> spans;
    for (int i = 0; i < 300; i++) spans.push_back(written(1));
    for (int i = 0; i < 300; i += 2) release(spans[i]);
    release(written(64));
    {
      os::FailCalls refuse(SYS_madvise, EAGAIN);
      tick_for(300 * kMillisecondNs);
      EXPECT_GT(refuse.refusals(), 0u) << mode;
      EXPECT_LT(refuse.refusals(), 300 * 151u) << mode;
      purge_all();
    }
    EXPECT_EQ(dirty_bytes(), (150 + 64) * kPageBytes) << mode;
    EXPECT_TRUE(tick_until_clean()) << mode;
    for (int i = 1; i < 300; i += 2) release(spans[i]);
    purge_all();
  }
}

// Locked memory is always refused: it is not retried at every tick.
TEST_F(Purge, RefusedPagesAreNotRetriedAtEachTick) {
  OptionForTest delay(Id::purge_delay, "10");
  std::vector<Span*> spans;
  constexpr unsigned kSpans = 400;
  for (unsigned i = 0; i < kSpans; i++) spans.push_back(take(100));
  for (Span* span : spans) release(span);
  {
    os::FailCalls refuse(SYS_madvise, EINVAL);
    tick_for(1500 * kMillisecondNs);
    EXPECT_GE(refuse.refusals(), kSpans / 4);
    EXPECT_LE(refuse.refusals(), 4 * kSpans);
  }
  purge_all();
}

// ---- fork ----

// Forks in the middle of a purge, in the system call.
long fork_when_purging(long number) {
  if (number != SYS_madvise) return 0;
  os::fault_hook = nullptr;
  lock_for_fork();
  int child = fork();
  unlock_after_fork(child == 0);
  if (child == 0) {
    bool back =
        dirty_bytes() == 100 * kPageBytes && purge_all() == 100 * kPageBytes && dirty_bytes() == 0;
    Span* span = take(100);
    _exit(back && span->known_zero && memory(span)[0] == 0 &&
                  page_statistics().used_bytes == span->bytes
              ? 0
              : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0) << "no other thread of the child would put it back";
  return 0;
}

TEST_F(Purge, PagesBeingPurgedAreReattachedInAForkedChild) {
  release(written(100));
  os::fault_hook = fork_when_purging;
  EXPECT_EQ(purge_all(), 100 * kPageBytes);
  os::fault_hook = nullptr;
  EXPECT_EQ(dirty_bytes(), 0u);
}

// ---- under load ----

// Threads allocate, write, check and release runs while the options change.
TEST_F(Purge, OptionsChangeUnderLoad) {
  unsigned seed = seed_for_test();
  SCOPED_TRACE(seed);
  std::atomic<bool> done{false};
  Progress operations;
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 3; t++) {
    threads.emplace_back([&, t] {
      std::mt19937 random(seed + t);
      std::vector<Span*> mine(50);
      for (; !done; operations.advance()) {
        Span*& span = mine[random() % mine.size()];
        if (span != nullptr) {
          for (size_t i = 0; i < span->bytes; i += 512)
            ASSERT_EQ(memory(span)[i], static_cast<char>(t + 1));
          release(span);
        }
        span = take(1 + random() % 30, t);
        if (span->known_zero) ASSERT_EQ(memory(span)[random() % span->bytes], 0);
        memset(memory(span), static_cast<int>(t + 1), span->bytes);
        if (random() % 8 == 0) tick();
        if (random() % 200 == 0) purge_all();
      }
      for (Span* span : mine) {
        if (span != nullptr) release(span);
      }
    });
  }
  std::mt19937 random(seed);
  OptionForTest purge(Id::purge, "balanced"), delay(Id::purge_delay, "1"),
      lazily(Id::purge_free, "0");
  auto choose = [&random](Id id, std::vector<const char*> values) {
    FixedText<256> problem;
    const char* value = values[random() % values.size()];
    ASSERT_TRUE(options::set(id, value, strlen(value), problem));
  };
  for (int i = 0; i < 150; i++) {
    choose(Id::purge, {"balanced", "eager", "never"});
    choose(Id::purge_delay, {"0", "1", "7", "1000"});
    choose(Id::purge_free, {"0", "1"});
    operations.wait_for_more(50);
    advance_test_clock(kStepNs);
  }
  done = true;
  for (std::thread& thread : threads) thread.join();
  purge_all();
  EXPECT_EQ(page_statistics().used_bytes, 0u);
  EXPECT_EQ(dirty_bytes(), 0u);
}

// Must be the last test: after one refusal the call is never made again.
TEST_F(Purge, WhereTheKernelTakesNothingLaterItGetsItNow) {
  OptionForTest lazily(Id::purge_free, "1"), delay(Id::purge_delay, "10");
  Span* span = written(100);
  uintptr_t start = span->start;
  release(span);
  {
    os::FailCalls refuse(SYS_madvise, EINVAL);
    while (refuse.refusals() == 0) tick_for(10 * kMillisecondNs);
  }
  EXPECT_TRUE(tick_until_clean());
  EXPECT_EQ(resident(start, 100 * kPageBytes), 0u);
  EXPECT_EQ(page_statistics().lazy_bytes, 0u);
}

}  // namespace
}  // namespace seemalloc::pages

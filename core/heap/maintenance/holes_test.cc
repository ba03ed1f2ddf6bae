// Holes of half-empty spans: which pages are purged, which stay, and which operations are allowed
// meanwhile. The tests with threads run under TSan too.
#include "core/heap/maintenance/holes.h"

#include <errno.h>
#include <gtest/gtest.h>
#include <limits.h>
#include <pthread.h>
#include <seemalloc/seemalloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "core/api/malloc/test_api.h"
#include "core/base/option_for_test.h"
#include "core/base/options.h"
#include "core/base/seed_for_test.h"
#include "core/heap/maintenance/housekeeping.h"
#include "core/heap/maintenance/purge_all.h"
#include "core/heap/maintenance/registry.h"
#include "core/heap/reports/residency.h"
#include "core/heap/reports/statistics.h"
#include "core/heap/slow_paths/owner_paths.h"
#include "core/heap/spans/span_holes.h"
#include "core/heap/thread/thread_cache.h"
#include "core/heap/thread/thread_heap.h"
#include "core/os/kernel/fault.h"
#include "core/os/kernel/memory.h"
#include "core/os/kernel/wait.h"
#include "core/os/runtime/lock.h"
#include "core/pages/page_heap/page_heap.h"
#include "core/pages/span/page_map.h"

namespace seemalloc::heap {
namespace {

struct Filled {
  unsigned char* p;
  size_t bytes;
  unsigned char fill;
};
using Blocks = std::vector<Filled>;

Filled make(size_t bytes, unsigned char fill) {
  Filled b{static_cast<unsigned char*>(sm_malloc(bytes)), bytes, fill};
  memset(b.p, fill, bytes);
  return b;
}
void expect_filled(const Filled& b) {
  for (size_t i = 0; i < b.bytes; i++) {
    if (b.p[i] == b.fill) continue;
    ADD_FAILURE() << "byte " << i << " of " << b.bytes << " at " << static_cast<void*>(b.p);
    abort();
  }
}

// Allocates `total` bytes in blocks and keeps one in `keep` of them.
Blocks sparse(size_t bytes, size_t total, size_t keep) {
  Blocks all, kept;
  for (size_t i = 0; i < total / bytes; i++)
    all.push_back(make(bytes, static_cast<unsigned char>(i)));
  for (size_t i = 0; i < all.size(); i++) {
    if (i % keep == 0) {
      kept.push_back(all[i]);
    } else {
      sm_free(all[i].p);
    }
  }
  return kept;
}
void free_all(const Blocks& blocks) {
  for (const Filled& b : blocks) {
    expect_filled(b);
    sm_free(b.p);
  }
}

bool heap_is_sound() {
  return for_each_live_block([](void*, void*, size_t) {}, nullptr);
}
bool has_no_detached_spans() {
  HolePurgePause pause;
  for (ThreadHeap* heap = all_heaps(); heap != nullptr; heap = heap->next_all) {
    if (heap->detached_spans != 0) return false;
  }
  return true;
}
size_t used_bytes() { return pages::page_statistics().used_bytes; }
// The resident bytes of the whole heap. Blocks count by the resident fraction of their class: exact
// to one byte per class.
size_t resident_bytes() {
  Residency r = residency(statistics());
  EXPECT_TRUE(r.kernel_answered);
  return r.live + r.cached + r.dirty + r.unused + r.fragmentation;
}

// Starts without spans of other tests and their holes.
class Holes : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(seemalloc_profile_stop(), 0);
    collect(*thread_cache_heap(), true);
    purge_all();
  }
  static ThreadHeap* thread_cache_heap() {
    sm_free(sm_malloc(1));
    return thread_cache.heap;
  }

 private:
  // The helper thread would purge instead of the tests' ticks, and in real time.
  options::OptionForTest no_helper_{options::Id::helper, "0"};
};

class HolesOfSize : public Holes, public testing::WithParamInterface<size_t> {};
INSTANTIATE_TEST_SUITE_P(Bytes, HolesOfSize,
                         testing::Values(8, 16, 48, 112, 500, 1000, 1800, 3000, 4096, 7000, 8192,
                                         12000, 20000, 32768));

TEST_P(HolesOfSize, ArePurgedAndReused) {
  size_t bytes = GetParam();
  constexpr size_t kTotal = 4 * MiB;
  size_t apart = 64 * KiB / bytes < 4 ? 4 : 64 * KiB / bytes;
  Blocks kept = sparse(bytes, kTotal, apart);
  size_t purged = purge_all_holes();
  EXPECT_GT(purged, kTotal / 2);
  EXPECT_TRUE(heap_is_sound());
  EXPECT_EQ(purge_all_holes(), 0u) << "purged holes are purged again";
  for (const Filled& b : kept) expect_filled(b);
  size_t used = used_bytes();
  std::set<void*> places;
  Blocks again;
  for (size_t i = 0; i < (kTotal - kTotal / apart) / bytes; i++) {
    again.push_back(make(bytes, static_cast<unsigned char>(i * 7)));
    EXPECT_TRUE(places.insert(again.back().p).second);
  }
  EXPECT_LE(used_bytes(), used + 256 * KiB) << "new spans, where holes could have been had";
  EXPECT_TRUE(heap_is_sound());
  free_all(kept);
  free_all(again);
  EXPECT_TRUE(heap_is_sound());
}

// While it exists, time passes only by advance_test_clock() and during purges, 20 µs each. Only one
// thread may purge.
class PurgesTakeTime {
 public:
  PurgesTakeTime() {
    os::advance_test_clock(0);
    os::fault_hook = [](long number) -> long {
      if (number == SYS_madvise) os::advance_test_clock(20 * kMicrosecondNs);
      return 0;
    };
  }
  ~PurgesTakeTime() { os::fault_hook = nullptr; }
};

TEST_F(Holes, BoundedPassResumes) {
  PurgesTakeTime time;
  Blocks kept = sparse(1000, 16 * MiB, 64);
  EXPECT_EQ(purge_all_holes(0), 0u);
  size_t first = purge_all_holes(200 * kMicrosecondNs);
  EXPECT_GT(first, 0u);
  EXPECT_LT(first, 12 * MiB);
  size_t rest = purge_all_holes();
  EXPECT_GT(first + rest, 8 * MiB);
  EXPECT_TRUE(has_no_detached_spans());
  free_all(kept);
}

TEST_P(HolesOfSize, EmptySpanWithHolesIsReleased) {
  size_t bytes = GetParam();
  size_t before = used_bytes();
  Blocks kept = sparse(bytes, 4 * MiB, 64 * KiB / bytes < 4 ? 4 : 64 * KiB / bytes);
  EXPECT_GT(purge_all_holes(), 0u);
  free_all(kept);
  EXPECT_TRUE(heap_is_sound());
  EXPECT_LE(used_bytes(), before + 512 * KiB);
}

TEST_P(HolesOfSize, AreFoundByTheBlocksThatStartInThem) {
  Blocks kept = sparse(GetParam(), 1 * MiB, 64 * KiB / GetParam() < 4 ? 4 : 64 * KiB / GetParam());
  const Span* span = pages::page_map.span_of(kept.back().p);
  uint32_t seen = 0;
  for (unsigned page = 0; page < 32; page++) {
    BlockRange range = blocks_starting_in(span, page);
    EXPECT_EQ(range.first, seen);
    for (uint32_t i = range.first; i < range.end; i++) {
      uintptr_t block = reinterpret_cast<uintptr_t>(span->block_at(i));
      EXPECT_EQ(block / os::page_bytes() - span->start / os::page_bytes(), page);
    }
    seen = range.end;
  }
  EXPECT_EQ(seen, span->carved);
  free_all(kept);
}

TEST_F(Holes, MemoryIsPurged) {
  Blocks kept = sparse(500, 16 * MiB, 200);
  size_t before = resident_bytes();
  size_t purged = purge_all_holes();
  EXPECT_GT(purged, 8 * MiB);  // the rest is in empty spans
  EXPECT_LE(resident_bytes(), before - purged + kClassCount);
  free_all(kept);
}

TEST_F(Holes, AreFreeInStatistics) {
  Blocks kept = sparse(500, 8 * MiB, 200);
  const ClassStatistics before = statistics().classes[class_of(500)];
  EXPECT_GT(purge_all_holes(), 0u);
  const ClassStatistics after = statistics().classes[class_of(500)];
  EXPECT_EQ(after.live, before.live);
  EXPECT_EQ(after.free, before.free);
  EXPECT_EQ(after.spans, before.spans);
  free_all(kept);
}

TEST_F(Holes, LaterFreesArePurgedLater) {
  Blocks kept = sparse(500, 8 * MiB, 4);  // some of them on every page
  EXPECT_LT(purge_all_holes(), 1 * MiB);
  Blocks few;
  for (size_t i = 0; i < kept.size(); i++) {
    if (i % 16 == 0) {
      few.push_back(kept[i]);
    } else {
      sm_free(kept[i].p);
    }
  }
  EXPECT_GT(purge_all_holes(), 4 * MiB);
  EXPECT_TRUE(heap_is_sound());
  free_all(few);
}

TEST_F(Holes, RefilledBytesAreCounted) {
  Blocks kept = sparse(500, 8 * MiB, 200);
  purge_all_holes();
  uint64_t before = hole_counters().refilled_bytes;
  Blocks again;
  for (int i = 0; i < 4000; i++) again.push_back(make(500, 1));
  EXPECT_GT(hole_counters().refilled_bytes, before + 1 * MiB);
  free_all(kept);
  free_all(again);
}

// The owner sleeps in a call that never returns.
TEST_F(Holes, OfASleepingThread) {
  std::atomic<int> stage{0};
  std::thread owner([&] {
    Blocks kept = sparse(500, 8 * MiB, 200);
    stage = 1;
    while (stage != 2) std::this_thread::yield();
    free_all(kept);
    free_all(sparse(500, 8 * MiB, 200));
  });
  while (stage != 1) std::this_thread::yield();
  EXPECT_GT(purge_all_holes(), 4 * MiB);
  stage = 2;
  owner.join();
  EXPECT_TRUE(heap_is_sound());
}

TEST_F(Holes, InUnownedSpans) {
  Blocks kept;
  // Too large to be kept with the heap.
  std::thread([&] { kept = sparse(500, 8 * MiB, 200); }).join();
  release_abandoned_heaps();
  const Span* span = pages::page_map.span_of(kept.back().p);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(span->owner_acquire()), Span::kNoOwner);
  EXPECT_GT(purge_all_holes(), 4 * MiB);
  EXPECT_EQ(purge_all_holes(), 0u);
  EXPECT_TRUE(heap_is_sound());
  // They are used before new ones, and released when they are empty.
  size_t used = used_bytes();
  Blocks again;
  for (int i = 0; i < 8000; i++) again.push_back(make(500, static_cast<unsigned char>(i)));
  EXPECT_LE(used_bytes(), used + 256 * KiB);
  EXPECT_TRUE(heap_is_sound());
  free_all(kept);
  free_all(again);
  EXPECT_TRUE(heap_is_sound());
}

// A thread that claims an unowned span by freeing into it owns its holes.
TEST_F(Holes, AreClaimedWithTheirSpan) {
  Blocks kept;
  std::thread([&] { kept = sparse(1000, 8 * MiB, 100); }).join();
  release_abandoned_heaps();
  EXPECT_GT(purge_all_holes(), 4 * MiB);
  size_t before = used_bytes();
  free_all(kept);
  EXPECT_TRUE(heap_is_sound());
  EXPECT_LT(used_bytes(), before / 2);
}

TEST_F(Holes, TimePurgesThem) {
  uint64_t before = hole_counters().purged_bytes;
  Blocks kept = sparse(500, 8 * MiB, 200);
  bool purged = false;
  for (int i = 0; i < 400 && !purged; i++) {  // far more time than needed
    os::advance_test_clock(50 * kMillisecondNs);
    tick();
    purged = hole_counters().purged_bytes > before + 4 * MiB;
  }
  EXPECT_TRUE(purged);
  free_all(kept);
}

TEST_F(Holes, NothingIsPurgedWhenPurgingIsOff) {
  ASSERT_EQ(seemalloc_option_set("purge", "0"), 0);
  Blocks kept = sparse(500, 8 * MiB, 200);
  uint64_t before = hole_counters().purged_bytes;
  for (int i = 0; i < 40; i++) {
    os::advance_test_clock(50 * kMillisecondNs);
    tick();
  }
  EXPECT_EQ(hole_counters().purged_bytes, before);
  ASSERT_EQ(seemalloc_option_set("purge", "1"), 0);
  free_all(kept);
}

TEST_F(Holes, RefusedPurgeKeepsBlocks) {
  Blocks kept = sparse(500, 8 * MiB, 200);
  {
    os::FailCalls refuse(SYS_madvise, EAGAIN);
    EXPECT_EQ(purge_all_holes(), 0u);
  }
  {
    os::FailCalls refuse(SYS_madvise, EAGAIN, 3);
    for (int i = 0; i < 10; i++) purge_all_holes();
  }
  EXPECT_TRUE(heap_is_sound());
  EXPECT_GT(purge_all_holes(), 2 * MiB) << "holes whose purge was refused once are not retried";
  Blocks again;
  for (int i = 0; i < 16000; i++) again.push_back(make(500, static_cast<unsigned char>(i)));
  EXPECT_TRUE(heap_is_sound());
  free_all(kept);
  free_all(again);
}

// The purger does not follow a list that the program has written to. The owner reports it, if it
// uses the list.
TEST_F(Holes, ABrokenListIsLeftAlone) {
  Blocks kept = sparse(500, 2 * MiB, 200);
  std::vector<std::pair<void**, void*>> broken;
  std::set<Span*> seen;
  for (const Filled& b : kept) {
    Span* span = pages::page_map.span_of(b.p);
    if (span->state != pages::SpanState::kAvailable || span->local_free == nullptr ||
        !seen.insert(span).second)
      continue;
    void** link = reinterpret_cast<void**>(span->local_free->next);
    if (link == nullptr) continue;
    broken.emplace_back(link, *link);
    void* wrong[] = {b.p + 1, reinterpret_cast<void*>(0x4242424242424242), nullptr,
                     span->local_free, link};
    *link = wrong[broken.size() % 5];
  }
  ASSERT_GT(broken.size(), 10u);
  EXPECT_LT(purge_all_holes(), 128 * KiB);
  for (auto [link, before] : broken) *link = before;
  EXPECT_TRUE(heap_is_sound());
  free_all(kept);
}

// ---- current spans of threads that sleep (current_spans.h) ----

// Allocates blocks of every class, `each` bytes per class.
Blocks of_every_class(size_t each) {
  Blocks blocks;
  for (const SizeClass& c : kClasses) {
    size_t count = each / c.bytes < 4 ? 4 : each / c.bytes;
    for (size_t i = 0; i < count; i++)
      blocks.push_back(make(c.bytes, static_cast<unsigned char>(blocks.size() * 7)));
  }
  return blocks;
}

// Threads that use every class, free everything and sleep until they must do it again.
class Sleepers {
 public:
  explicit Sleepers(unsigned count) {
    for (unsigned i = 0; i < count; i++) threads_.emplace_back(&Sleepers::run, this);
    wait_until_asleep();
  }
  ~Sleepers() {
    end_ = true;
    wake();
    for (std::thread& thread : threads_) thread.join();
  }
  void work_again() {
    asleep_ = 0;
    wake();
    wait_until_asleep();
  }

 private:
  static constexpr size_t kEach = 190 * KiB;  // most spans are used up, the last ones are not
  void run() {
    for (uint32_t round = 0; !end_; round++) {
      free_all(of_every_class(kEach));
      asleep_++;
      asleep_.notify_one();
      while (round_.load() == round) os::futex_wait(&round_, round);
    }
  }
  void wake() {
    round_++;
    os::futex_wake(&round_, INT_MAX);
  }
  void wait_until_asleep() {
    for (unsigned seen; (seen = asleep_) != threads_.size();) asleep_.wait(seen);
  }

  std::atomic<uint32_t> round_{0};
  std::atomic<unsigned> asleep_{0};
  std::atomic<bool> end_{false};
  std::vector<std::thread> threads_;
};

unsigned current_spans_in_all() {
  unsigned count = 0;
  for (ThreadHeap* heap = all_heaps(); heap != nullptr; heap = heap->next_all) {
    LockGuard guard(heap->slow_lock);
    for (const ClassState& cs : heap->body->classes) count += cs.current != nullptr;
  }
  return count;
}

// The resident bytes after everything except current spans is purged.
size_t resident_with_spans_in_use() {
  os::FailCalls refuse(SYS_membarrier, ENOSYS);
  purge_all();
  return resident_bytes();
}

TEST_F(Holes, OfSpansInUseOfThreadsThatSleep) {
  size_t before = resident_bytes();
  Sleepers sleepers(4);
  size_t kept = resident_with_spans_in_use() - before;
  for (int i = 0; i < 3; i++) {
    purge_all();
    EXPECT_LT(resident_bytes() - before, kept * 2 / 3) << "of " << kept << ", in round " << i;
    EXPECT_TRUE(heap_is_sound());
    EXPECT_TRUE(has_no_detached_spans());
    sleepers.work_again();
  }
}

// No thread allocates: only the ticks of the helper thread do the work.
TEST_F(Holes, TimePurgesThoseOfSpansInUse) {
  options::OptionForTest delay(options::Id::purge_delay, "250");
  size_t before = resident_bytes();
  Sleepers sleepers(4);
  size_t kept = resident_with_spans_in_use() - before;
  bool gone = false;
  for (int i = 0; i < 1000 && !gone; i++) {  // far more time than needed
    os::advance_test_clock(20 * kMillisecondNs);
    tick();
    gone = resident_bytes() < before + kept * 2 / 3;
  }
  EXPECT_TRUE(gone) << kept << " bytes, and now " << resident_bytes() - before;
}

// A class whose list the thread continues to use is in use.
TEST_F(Holes, ASpanInUseStaysWithItsThread) {
  Blocks kept = sparse(500, 1 * MiB, 200);
  unsigned size_class = class_of(500);
  options::OptionForTest delay(options::Id::purge_delay, "250");
  for (int i = 0; i < 400; i++) {
    os::advance_test_clock(5 * kMillisecondNs);
    sm_free(make(500, 1).p);
    tick();
    if (thread_cache.heap->body->classes[size_class].current == nullptr) break;
  }
  EXPECT_NE(thread_cache.heap->body->classes[size_class].current, nullptr);
  free_all(kept);
}

TEST_F(Holes, WhereTheKernelHasNoFenceSpansInUseStay) {
  // Many threads: with few, more current spans have no blocks outside the thread free list
  // (docs/decisions/0052).
  Sleepers sleepers(6);
  unsigned in_use = current_spans_in_all();
  {
    os::FailCalls refuse(SYS_membarrier, ENOSYS);
    purge_all();
    EXPECT_GT(refuse.refusals(), 0u);
    EXPECT_EQ(current_spans_in_all(), in_use);
  }
  purge_all();
  EXPECT_LT(current_spans_in_all(), in_use / 2);
  EXPECT_TRUE(heap_is_sound());
}

// A list is longer than the gathered blocks that a heap may keep.
TEST_F(Holes, AThreadEndsAfterItsSpansInUseWereTaken) {
  size_t before = used_bytes();
  for (int i = 0; i < 4; i++) {
    Sleepers sleepers(2);
    purge_all();
  }
  EXPECT_TRUE(heap_is_sound());
  EXPECT_TRUE(has_no_detached_spans());
  release_abandoned_heaps();
  purge_all();
  EXPECT_LE(used_bytes(), before + 1 * MiB);
}

// ---- threads ----

// Lists of a few blocks, so that the owners enter refill_from_local_frees all the time, while their
// spans are taken away as fast as possible.
TEST_F(Holes, SpansInUseAreTakenFromThreadsThatWork) {
  std::atomic<bool> done{false};
  uint64_t before = hole_counters().current_spans;
  auto owner = [&done](unsigned seed) {
    std::mt19937 random(seed);
    constexpr size_t kSizes[] = {64, 500, 2000, 8192, 20000};
    while (!done) {
      Blocks blocks;
      size_t bytes = kSizes[random() % std::size(kSizes)];
      for (size_t i = 1 + random() % (1 + 100000 / bytes); i != 0; i--) {
        blocks.push_back(make(bytes, static_cast<unsigned char>(random())));
        if (random() % 4 != 0) continue;
        std::swap(blocks[random() % blocks.size()], blocks.back());
        expect_filled(blocks.back());
        sm_free(blocks.back().p);
        blocks.pop_back();
      }
      free_all(blocks);
    }
  };
  std::vector<std::thread> owners;
  for (unsigned i = 0; i < 3; i++) owners.emplace_back(owner, seed_for_test() + i);
  auto taken = [before] { return hole_counters().current_spans - before; };
  using std::chrono::steady_clock;  // the simulated clock may stand still
  for (auto end = steady_clock::now() + std::chrono::seconds(30);
       taken() < 200 && steady_clock::now() < end;)
    purge_all_holes();
  done = true;
  for (std::thread& thread : owners) thread.join();
  EXPECT_GE(taken(), 50u);
  EXPECT_TRUE(heap_is_sound());
  EXPECT_TRUE(has_no_detached_spans());
}

struct Box {
  std::atomic<Filled*> slot{nullptr};
};
Box boxes[64];

// Allocates, fills, checks, frees, and hands blocks to other threads, in bursts of one size after
// the other: spans fill and empty.
void work(unsigned seed, int rounds) {
  std::mt19937 random(seed);
  constexpr size_t kSizes[] = {16, 60, 200, 500, 1000, 2500, 9000, 30000};
  for (int round = 0; round < rounds; round++) {
    size_t bytes = kSizes[random() % std::size(kSizes)];
    Blocks blocks;
    for (size_t i = 0; i < 300 * KiB / bytes; i++)
      blocks.push_back(make(bytes, static_cast<unsigned char>(random())));
    while (blocks.size() > 1) {
      size_t at = random() % blocks.size();
      Filled b = blocks[at];
      blocks[at] = blocks.back();
      blocks.pop_back();
      expect_filled(b);
      if (random() % 40 != 0) {
        sm_free(b.p);
        continue;
      }
      auto* letter = static_cast<Filled*>(sm_malloc(sizeof(Filled)));
      *letter = b;
      Filled* old = boxes[random() % std::size(boxes)].slot.exchange(letter);
      if (old == nullptr) continue;
      expect_filled(*old);
      sm_free(old->p);
      sm_free(old);
    }
    free_all(blocks);
  }
}

void empty_boxes() {
  for (Box& box : boxes) {
    if (Filled* letter = box.slot.exchange(nullptr)) {
      expect_filled(*letter);
      sm_free(letter->p);
      sm_free(letter);
    }
  }
}

int rounds() {
  const char* seconds = getenv("SEEMALLOC_SECONDS");  // a longer time means more rounds
  return 30 * (seconds != nullptr ? atoi(seconds) + 1 : 4);
}

TEST_F(Holes, PurgedWhileThreadsWork) {
  unsigned seed = seed_for_test();
  SCOPED_TRACE(seed);
  uint64_t before = hole_counters().spans;
  std::atomic<bool> done{false};
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 3; t++) threads.emplace_back(work, seed + t, rounds());
  std::thread purger([&] {
    while (!done) purge_all_holes();
  });
  for (std::thread& t : threads) t.join();
  done = true;
  purger.join();
  empty_boxes();
  EXPECT_GT(hole_counters().spans, before);
  EXPECT_TRUE(heap_is_sound());
}

TEST_F(Holes, PurgedWhileThreadsEnd) {
  unsigned seed = seed_for_test();
  SCOPED_TRACE(seed);
  std::atomic<bool> done{false};
  std::thread purger([&] {
    while (!done) {
      purge_all_holes();
      release_abandoned_heaps();
      purge_idle_bodies();
    }
  });
  for (int i = 0; i < rounds(); i++) {
    std::thread a(work, seed + 2 * i, 2), b(work, seed + 2 * i + 1, 2);
    a.join();
    b.join();
  }
  done = true;
  purger.join();
  empty_boxes();
  EXPECT_TRUE(heap_is_sound());
  EXPECT_TRUE(has_no_detached_spans());
}

// The age of a period older than the remembered ones is at least that of the oldest remembered one,
// even at the moment when another period begins.
TEST_F(Holes, AgesStayWhenAPeriodBegins) {
  auto begin_period = [] {
    os::advance_test_clock(kMillisecondNs);
    purge_all_holes();
  };
  for (int i = 0; i < 80; i++) begin_period();
  uint64_t least = UINT64_MAX;
  std::atomic<unsigned> reads{0};
  std::atomic<bool> done{false};
  std::thread reader([&] {
    for (; !done; reads++) least = std::min(least, ns_since_hole_epoch(1));
  });
  for (int i = 0; i < 1000 || reads < 100000; i++) begin_period();
  done = true;
  reader.join();
  EXPECT_GE(least, 50 * kMillisecondNs);
}

// A slice ends before all heaps have been scanned: the next one continues where it stopped.
TEST_F(Holes, EachOfManyHeapsGetsItsTurn) {
#ifdef __SANITIZE_THREAD__
  constexpr unsigned kThreads = 50;
#else
  constexpr unsigned kThreads = 1500;
#endif
  options::OptionForTest delay(options::Id::purge_delay, "250");
  std::atomic<unsigned> ready{0};
  std::atomic<bool> done{false};
  std::vector<std::thread> threads;
  uint64_t before = hole_counters().spans;
  for (unsigned i = 0; i < kThreads; i++) {
    threads.emplace_back([&] {
      Blocks kept = sparse(1000, 128 * KiB, 50);
      ready++;
      ready.notify_one();
      done.wait(false);
      free_all(kept);
    });
  }
  for (unsigned seen; (seen = ready) != kThreads;) ready.wait(seen);
  unsigned slices = 0;
  {
    PurgesTakeTime time;
    for (; hole_counters().spans - before < kThreads || hole_scan_unfinished(); slices++) {
      os::advance_test_clock(15 * kMillisecondNs);
      tick();
    }
  }
  EXPECT_GE(slices, kThreads / 30) << "a slice has time for 25 purges";
  done = true;
  done.notify_all();
  for (std::thread& thread : threads) thread.join();
}

#ifndef __SANITIZE_THREAD__  // TSan does not allow threads in a child
TEST_F(Holes, AChildOfAPurgingProcess) {
  std::mt19937 random(seed_for_test());
  std::atomic<bool> done{false};
  std::thread purger([&] {
    while (!done) purge_all_holes();
  });
  int failed = 0;
  for (int i = 0; i < 60; i++) {
    Blocks kept = sparse(100 + random() % 1000, 4 * MiB, 100);
    // Up to some ms of work: forks at any point of the other thread's pass.
    for (volatile unsigned i = random() % 1000000; i != 0;) i = i - 1;
    pid_t child = fork();
    if (child == 0) {
      alarm(60);  // in case of a lock without a holder
      bool sound = heap_is_sound() && has_no_detached_spans();
      free_all(kept);
      free_all(sparse(500, 4 * MiB, 200));
      purge_all();
      std::thread([] { free_all(sparse(300, 1 * MiB, 10)); }).join();
      _exit(sound && heap_is_sound() ? 0 : 1);
    }
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    failed += status != 0;
    free_all(kept);
  }
  done = true;
  purger.join();
  EXPECT_EQ(failed, 0);
}

// If the fork has interrupted one of our critical sections, the heaps of the other threads stay as
// they are. Their lists do not: they are in memory that the C library unmaps.
TEST_F(Holes, ForkWithHeldLockDoesNotReadListsOfMissingThreads) {
  constexpr size_t kStackBytes = 1 * MiB;
  void* stack =
      mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(stack, MAP_FAILED);
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstack(&attributes, stack, kStackBytes);
  struct Both {
    std::atomic<bool> sleeping{false}, done{false};
  } both;
  auto sleeper = [](void* argument) -> void* {
    Both& both = *static_cast<Both*>(argument);
    Blocks kept = sparse(500, 1 * MiB, 10);
    both.sleeping = true;
    both.sleeping.notify_one();
    both.done.wait(false);
    free_all(kept);
    return nullptr;
  };
  pthread_t thread;
  ASSERT_EQ(pthread_create(&thread, &attributes, sleeper, &both), 0);
  both.sleeping.wait(false);
  // Afterwards its thread free list has blocks of another span.
  for (int i = 0; i < 3; i++) purge_all_holes();
  Lock section;
  section.lock();
  pid_t child = fork();
  if (child == 0) {
    section.unlock();
    munmap(stack, kStackBytes);
    purge_all_holes();
    pid_t its_child = fork();  // its child empties those heaps
    if (its_child == 0) _exit(heap_is_sound() ? 0 : 1);
    int status = -1;
    _exit(waitpid(its_child, &status, 0) == its_child && status == 0 ? 0 : 1);
  }
  section.unlock();
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  both.done = true;
  both.done.notify_one();
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
  munmap(stack, kStackBytes);
}
#endif

}  // namespace
}  // namespace seemalloc::heap

#include "core/pages/span/memory_account.h"

#include <errno.h>
#include <gtest/gtest.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "core/base/option_for_test.h"
#include "core/base/options.h"
#include "core/base/seed_for_test.h"
#include "core/os/kernel/fault.h"
#include "core/os/kernel/memory.h"
#include "core/pages/huge/huge.h"
#include "core/pages/page_heap/page_heap.h"
#include "core/pages/page_heap/purge.h"
#include "core/pages/span/region_count.h"

namespace seemalloc::pages {
namespace {

using options::OptionForTest;

Span* take(size_t page_count) {
  Span* span = allocate_run(0, page_count, 1, SpanKind::kLarge);
  if (span != nullptr) {
    span->set_live(1);
    publish(span);
  }
  return span;
}

// The sum that invariant 1 requires.
size_t counted_bytes() {
  PageStatistics regions = page_statistics();
  HugeStatistics huge = huge_statistics();
  size_t reserves = 0;
  for_each_huge_span(
      [](void* sum, Span* span) {
        *static_cast<size_t*>(sum) += size_t{span->capacity} << kPageShift;
      },
      &reserves);
  return regions.used_bytes + regions.dirty_bytes + huge.used_bytes + reserves + huge.cached_bytes;
}

class HeapLimit {
 public:
  explicit HeapLimit(size_t bytes) { set(bytes); }
  ~HeapLimit() { set(0); }
  static void set(size_t bytes) {
    std::string text = std::to_string(bytes);
    FixedText<64> problem;
    EXPECT_TRUE(options::set(options::Id::heap_limit, text.c_str(), text.size(), problem))
        << problem.c_str();
  }
};

TEST(MemoryAccount, RefusesChargesAboveTheLimit) {
  purge_all();
  HeapLimit limit(memory_account.total_bytes() + 4 * MiB);
  uint64_t refusals = memory_account.refusals();
  std::vector<Span*> spans;
  while (Span* span = take(16)) spans.push_back(span);
  EXPECT_GE(memory_account.refusals(), refusals + 1);
  EXPECT_GE(spans.size(), 4 * MiB / (16 * kPageBytes) - 2);
  EXPECT_LE(spans.size(), 4 * MiB / (16 * kPageBytes));
  EXPECT_EQ(allocate_huge(2 * MiB, kPageBytes), nullptr);
  unsigned regions = region_count();
  EXPECT_EQ(take(16), nullptr);
  EXPECT_EQ(region_count(), regions) << "a refused request leaves no region behind";
  // Free dirty pages are already charged.
  release(spans.back());
  spans.back() = take(16);
  EXPECT_NE(spans.back(), nullptr);
  // Huge memory has no room before they are purged.
  for (Span* span : spans) release(span);
  EXPECT_EQ(allocate_huge(3 * MiB, kPageBytes), nullptr);
  purge_all();
  Span* span = allocate_huge(3 * MiB, kPageBytes);
  ASSERT_NE(span, nullptr);
  EXPECT_FALSE(resize_huge(span, 12 * MiB));
  EXPECT_EQ(span->bytes, 3 * MiB) << "unchanged";
  release_huge(span);
}

TEST(MemoryAccount, AHugeBlockGrowsByItsGrowthOnly) {
  purge_all();
  HeapLimit limit(memory_account.total_bytes() + 40 * MiB);
  Span* span = allocate_huge(24 * MiB, kPageBytes);
  ASSERT_NE(span, nullptr);
  memset(reinterpret_cast<void*>(span->start), 1, span->bytes);
  // Blocks the addresses behind it, so that it has to move; the limit has no room for both copies
  // at once.
  void* behind = reinterpret_cast<void*>(span->start + span->bytes);
  bool mapped = os::map_at(span->start + span->bytes, os::page_bytes(), os::Reason::kHuge);
  EXPECT_TRUE(resize_huge(span, 36 * MiB));
  EXPECT_EQ(reinterpret_cast<char*>(span->start)[24 * MiB - 1], 1);
  if (mapped) os::unmap(behind, os::page_bytes(), os::Reason::kHuge);
  release_huge(span);
  EXPECT_EQ(memory_account.bytes(), counted_bytes());
}

// Cached memory behind a block is already charged.
TEST(MemoryAccount, HugeBlockGrowsIntoCacheAtTheLimit) {
  purge_all();
  Span* span = allocate_huge(16 * MiB, kPageBytes);
  ASSERT_NE(span, nullptr);
  memset(reinterpret_cast<void*>(span->start), 1, span->bytes);
  ASSERT_TRUE(resize_huge(span, 8 * MiB));
  ASSERT_EQ(huge_statistics().cached_bytes, 8 * MiB);
  {
    HeapLimit limit(memory_account.total_bytes());
    EXPECT_TRUE(resize_huge(span, 16 * MiB));
    EXPECT_EQ(huge_statistics().cached_bytes, 0u);
    EXPECT_FALSE(resize_huge(span, 17 * MiB));
  }
  release_huge(span);
  EXPECT_EQ(memory_account.bytes(), counted_bytes());
}

// ---- memory in transit ----

size_t least_seen;

// Each of these calls may take long, while other threads charge memory.
long note_least(long number) {
  if (number == SYS_munmap || number == SYS_madvise || number == SYS_mincore)
    least_seen = std::min(least_seen, memory_account.bytes());
  return 0;
}

template <typename F>
size_t least_during(F f) {
  least_seen = SIZE_MAX;
  os::fault_hook = note_least;
  f();
  os::fault_hook = nullptr;
  return least_seen;
}

Span* written_huge(size_t bytes) {
  Span* span = allocate_huge(bytes, kPageBytes);
  memset(reinterpret_cast<void*>(span->start), 1, span->bytes);
  return span;
}

TEST(MemoryAccount, HugeMemoryCountsUntilUnmapped) {
  purge_all();
  OptionForTest eager(options::Id::purge, "eager");
  size_t before = memory_account.bytes();
  Span* span = written_huge(16 * MiB);
  size_t least = least_during([span] { ASSERT_TRUE(resize_huge(span, 8 * MiB)); });
  EXPECT_NE(least, SIZE_MAX);
  EXPECT_GE(least, before + 16 * MiB);
  least = least_during([span] { release_huge(span); });
  EXPECT_NE(least, SIZE_MAX);
  EXPECT_GE(least, before + 8 * MiB);
  EXPECT_EQ(memory_account.bytes(), before);
}

TEST(MemoryAccount, CachedHugeMemoryCountsUntilPurged) {
  purge_all();
  OptionForTest kept(options::Id::purge, "never");
  size_t before = memory_account.bytes();
  Span* span = written_huge(16 * MiB);
  EXPECT_GE(least_during([span] { ASSERT_TRUE(resize_huge(span, 8 * MiB)); }), before + 16 * MiB);
  size_t least = least_during([span] { release_huge(span); });
  EXPECT_NE(least, SIZE_MAX) << "the kernel is asked how much of it was touched";
  EXPECT_GE(least, before + 16 * MiB);
  ASSERT_EQ(huge_statistics().cached_bytes, 16 * MiB);
  least =
      least_during([] { EXPECT_GE(purge_huge(UINT64_MAX, os::Reason::kRequested, 1), 8 * MiB); });
  EXPECT_NE(least, SIZE_MAX);
  EXPECT_GE(least, before + 16 * MiB);
  release_huge(written_huge(8 * MiB));
  size_t cached = huge_statistics().cached_bytes;
  ASSERT_GE(cached, 8 * MiB);
  EXPECT_GE(least_during([] { EXPECT_GE(purge_huge_oldest(1, os::Reason::kRequested), 8 * MiB); }),
            before + cached);
  purge_all();
  EXPECT_EQ(memory_account.bytes(), before);
}

// ---- fork ----

int fork_between_handlers() {
  lock_for_fork();
  int child = fork();
  unlock_after_fork(child == 0);
  return child;
}

void expect_good_end(int child) {
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST(MemoryAccount, ChildDropsChargesOfOtherThreads) {
  Span* run = take(16);
  Span* huge = allocate_huge(3 * MiB, kPageBytes);
  release(take(8));
  memory_account.add(100 * MiB);  // a thread of the parent is about to map this much
  int child = fork_between_handlers();
  if (child == 0) {
    bool same = memory_account.bytes() == counted_bytes();
    release(run);
    release_huge(huge);
    purge_all();
    _exit(same && memory_account.bytes() == counted_bytes() && memory_account.bytes() < 100 * MiB
              ? 0
              : 1);
  }
  expect_good_end(child);
  memory_account.uncharge(100 * MiB);
  EXPECT_EQ(memory_account.bytes(), counted_bytes());
  release(run);
  release_huge(huge);
}

// Here the forking thread itself is in the middle of an operation: a signal handler of the program
// forks.
long fork_when_unmapping(long number) {
  if (number != SYS_munmap) return 0;
  os::fault_hook = nullptr;
  int child = fork_between_handlers();
  if (child != 0) expect_good_end(child);
  return 0;
}

TEST(MemoryAccount, ForkingThreadReleasesItsOwnCharges) {
  purge_all();
  OptionForTest eager(options::Id::purge, "eager");
  Span* span = written_huge(16 * MiB);
  int parent = getpid();
  os::fault_hook = fork_when_unmapping;
  release_huge(span);
  EXPECT_TRUE(os::fault_hook.load() == nullptr) << "it has forked";
  os::fault_hook = nullptr;
  if (getpid() != parent) _exit(memory_account.bytes() == counted_bytes() ? 0 : 1);
  EXPECT_EQ(memory_account.bytes(), counted_bytes());
}

// ---- combined ----

// The counter equals the sum found by a walk, for random operations and refusals by the kernel.
void random_operations(unsigned seed, bool limited) {
  std::mt19937 random(seed);
  std::vector<Span*> runs, huge;
  auto pick = [&random](std::vector<Span*>& from) {
    std::swap(from[random() % from.size()], from.back());
    Span* span = from.back();
    from.pop_back();
    return span;
  };
  for (int step = 0; step < 3000; step++) {
    if (limited && step % 100 == 0)
      HeapLimit::set(memory_account.total_bytes() + random() % (8 * MiB));
    unsigned action = random() % 100;
    if (action < 30) {
      if (Span* span = take(1 + random() % 40)) runs.push_back(span);
    } else if (action < 45) {
      if (Span* span = allocate_huge(MiB + random() % (6 * MiB), kPageBytes)) huge.push_back(span);
    } else if (action < 60 && !huge.empty()) {
      Span* span = huge[random() % huge.size()];
      resize_huge(span, MiB + random() % (12 * MiB));
    } else if (action < 65 && !runs.empty()) {
      Span* span = runs[random() % runs.size()];
      try_extend(span, span->bytes / kPageBytes + 1 + random() % 4);
    } else if (action < 90 && !runs.empty()) {
      release(pick(runs));
    } else if (action < 97 && !huge.empty()) {
      release_huge(pick(huge));
    } else if (action == 98) {
      purge_all();
    } else if (action == 99) {
      unmap_empty_regions();
    }
    ASSERT_EQ(memory_account.bytes(), counted_bytes()) << "step " << step;
  }
  for (Span* span : runs) release(span);
  for (Span* span : huge) release_huge(span);
}

TEST(MemoryAccount, EqualsTheSumOfItsParts) {
  unsigned seed = seed_for_test();
  SCOPED_TRACE(seed);
  random_operations(seed, false);
  ASSERT_EQ(memory_account.bytes(), counted_bytes());
}

TEST(MemoryAccount, EqualsTheSumOfItsPartsNearALimit) {
  unsigned seed = seed_for_test();
  SCOPED_TRACE(seed);
  random_operations(seed, true);
  HeapLimit::set(0);
  EXPECT_GT(memory_account.refusals(), 0u);
}

TEST(MemoryAccount, EqualsTheSumOfItsPartsUnderRefusals) {
  unsigned seed = seed_for_test();
  SCOPED_TRACE(seed);
  for (long number : {SYS_mmap, SYS_munmap, SYS_madvise, SYS_mremap}) {
    SCOPED_TRACE(number);
    os::FailCalls refuse(number, ENOMEM, 3);
    random_operations(seed, false);
  }
}

TEST(MemoryAccount, ThreadsDoNotPassTheLimitTogether) {
  purge_all();
  constexpr size_t kRoom = 16 * MiB;
  size_t most = memory_account.total_bytes() + kRoom;
  HeapLimit limit(most);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; i++) {
    threads.emplace_back([most] {
      std::vector<Span*> spans;
      for (int round = 0; round < 50; round++) {
        while (Span* span = take(8)) {
          spans.push_back(span);
          EXPECT_LE(memory_account.total_bytes(), most + 256 * KiB)
              << "but for a step of our own records";
          if (spans.size() == 100) break;
        }
        for (Span* span : spans) release(span);
        spans.clear();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  purge_all();
}

}  // namespace
}  // namespace seemalloc::pages

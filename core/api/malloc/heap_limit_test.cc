// heap_limit and heap_soft_limit, through the malloc family.
#include "core/api/malloc/heap_limit.h"

#include <errno.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "core/api/malloc/test_api.h"
#include "core/api/settings/runtime_options.h"
#include "core/base/options.h"
#include "core/heap/maintenance/pressure.h"
#include "core/heap/maintenance/purge_all.h"
#include "core/heap/thread/large_cache.h"
#include "core/heap/thread/size_class.h"
#include "core/os/kernel/waits_for_test.h"
#include "core/os/runtime/lock.h"
#include "core/pages/page_heap/page_heap.h"
#include "core/pages/page_heap/purge.h"
#include "core/pages/span/memory_account.h"
#include "core/pages/span/region_count.h"

namespace seemalloc {
namespace {

void set(const char* name, const std::string& value) {
  FixedText<256> problem;
  ASSERT_EQ(set_option(name, strlen(name), value.c_str(), problem), SetOption::kDone)
      << problem.c_str();
}

// Sets an option for the duration of a test.
class Option {
 public:
  Option(const char* name, size_t value, const char* after = "0") : name_(name), after_(after) {
    set(name, std::to_string(value));
  }
  ~Option() { set(name_, after_); }

 private:
  const char* name_;
  const char* after_;
};

size_t used_bytes() {
  heap::purge_all();
  return pages::memory_account.total_bytes();
}

std::vector<void*> fill(size_t each, size_t bytes) {
  std::vector<void*> blocks;
  for (size_t sum = 0; sum + each <= bytes; sum += each) {
    void* p = sm_malloc(each);
    if (p == nullptr) break;
    memset(p, 0x5A, each);
    blocks.push_back(p);
  }
  return blocks;
}

void free_all(std::vector<void*>& blocks) {
  for (void* p : blocks) sm_free(p);
  blocks.clear();
}

class HeapLimit : public testing::TestWithParam<size_t> {};
INSTANTIATE_TEST_SUITE_P(Sizes, HeapLimit, testing::Values(24, 500, 20000, 300 * KiB, 3 * MiB));

TEST_P(HeapLimit, FailsWithErrnoAndLosesNothing) {
  constexpr size_t kRoom = 16 * MiB;
  size_t before = used_bytes();
  Option limit("heap_limit", before + kRoom);
  errno = 0;
  std::vector<void*> blocks = fill(GetParam(), 2 * kRoom);
  EXPECT_EQ(errno, ENOMEM);
  EXPECT_GE(blocks.size() * GetParam(), kRoom * 3 / 4 - 3 * MiB);
  EXPECT_LE(pages::memory_account.total_bytes(), before + kRoom + kRegionBytes);
  // All requests are refused with an error, and existing blocks stay.
  unsigned char* last = static_cast<unsigned char*>(blocks.back());
  errno = 0;
  EXPECT_EQ(sm_realloc(last, 40 * MiB), nullptr);
  EXPECT_EQ(errno, ENOMEM);
  EXPECT_EQ(last[GetParam() - 1], 0x5A);
  EXPECT_EQ(sm_calloc(1, 40 * MiB), nullptr);
  EXPECT_EQ(sm_memalign(64 * KiB, 40 * MiB), nullptr);
  void* aligned = nullptr;
  EXPECT_EQ(sm_posix_memalign(&aligned, 64, 40 * MiB), ENOMEM);
  free_all(blocks);
  // Freed memory of one kind makes space for another.
  std::vector<void*> others = fill(GetParam() < MiB ? 3 * MiB : 500, 12 * MiB);
  EXPECT_GE(others.size(), 4u);
  free_all(others);
}

TEST(HeapLimitAtRunTime, BelowUsageRefusesGrowthOnly) {
  used_bytes();  // no memory that earlier tests have freed is cached
  std::vector<void*> blocks = fill(1000, 8 * MiB);
  {
    Option limit("heap_limit", 4 * MiB);
    EXPECT_EQ(sm_malloc(4 * MiB), nullptr);
    for (void* p : blocks) EXPECT_EQ(static_cast<unsigned char*>(p)[999], 0x5A);
    sm_free(blocks.back());
    blocks.back() = sm_malloc(1000);
    EXPECT_NE(blocks.back(), nullptr) << "a free block of the span is reused";
  }
  void* p = sm_malloc(4 * MiB);
  EXPECT_NE(p, nullptr);
  sm_free(p);
  free_all(blocks);
}

TEST(HeapLimitAtRunTime, ReallocReleasesMemoryForItsGrowth) {
  used_bytes();
  char* p = static_cast<char*>(sm_malloc(40 * MiB));
  p[40 * MiB - 1] = 7;
  std::vector<void*> others = fill(1000, 16 * MiB);
  Option limit("heap_limit", pages::memory_account.total_bytes());
  free_all(others);
  // Two copies at once would not fit.
  char* grown = static_cast<char*>(sm_realloc(p, 52 * MiB));
  ASSERT_NE(grown, nullptr) << "more is free than the block grows by";
  EXPECT_EQ(grown[40 * MiB - 1], 7);
  sm_free(grown);
}

TEST(HeapLimitAtRunTime, ShrinkingReallocNeverFailsNorEndsTheProcess) {
  used_bytes();
  char* p = static_cast<char*>(sm_malloc(3 * MiB));
  p[0] = 7;
  set("heap_limit_action", "abort");
  {
    Option limit("heap_limit", used_bytes());
    errno = 0;
    char* less = static_cast<char*>(sm_realloc(p, 600 * KiB));
    EXPECT_EQ(less, p) << "there is no space for a smaller block beside it";
    EXPECT_EQ(errno, 0);
    EXPECT_EQ(less[0], 7);
  }
  set("heap_limit_action", "fail");
  sm_free(p);
}

TEST(HeapLimitAtRunTime, KeepsAddressesAndUnhelpfulMemory) {
  used_bytes();
  void* live = sm_malloc(32 * MiB);
  std::vector<void*> others = fill(1000, 16 * MiB);
  Option limit("heap_limit", pages::memory_account.total_bytes());
  free_all(others);
  unsigned regions = pages::region_count();
  size_t dirty = pages::page_statistics().dirty_bytes;
  EXPECT_EQ(sm_malloc(options::get(options::Id::heap_limit) + MiB), nullptr);
  EXPECT_GE(pages::page_statistics().dirty_bytes + MiB, dirty)
      << "no purge makes enough space for that";
  EXPECT_EQ(sm_malloc(24 * MiB), nullptr);
  EXPECT_LT(pages::page_statistics().dirty_bytes, dirty / 4);
  EXPECT_GE(pages::region_count(), regions) << "the limit does not count addresses";
  sm_free(live);
}

// Threads that wait, each with an empty span of each class for its next refill.
TEST(HeapLimitAtRunTime, EmptySpansOfOtherThreadsAreReleased) {
  constexpr int kThreads = 12;  // of each at least 300 KiB are released, mostly more
  used_bytes();
  Progress ready, done;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; i++) {
    threads.emplace_back([&] {
      for (unsigned c = 0; c < heap::kClassCount; c++) {
        std::vector<void*> blocks = fill(heap::kClasses[c].bytes, 256 * KiB);
        free_all(blocks);
      }
      ready.advance();
      done.wait_for(1);
    });
  }
  ready.wait_for(kThreads);
  pages::purge_all();
  size_t kept = pages::memory_account.total_bytes();
  {
    Option limit("heap_limit", kept);
    void* p = sm_malloc(2 * MiB);
    EXPECT_NE(p, nullptr) << "of " << kept;
    sm_free(p);
  }
  done.advance();
  for (std::thread& thread : threads) thread.join();
}

TEST(HeapLimitDeathTest, AbortsWithALineAndAProfile) {
  std::string prefix = testing::TempDir() + "/limit_test_" + std::to_string(getpid());
  size_t before = used_bytes();
  set("dump_prefix", prefix);
  set("heap_limit_action", "abort");
  set("sample", "64K");
  auto pass_the_limit = [before] {
    set("heap_limit", std::to_string(before + 8 * MiB));
    fill(500, 100 * MiB);
  };
  EXPECT_EXIT(
      pass_the_limit(), testing::KilledBySignal(SIGABRT),
      "seemalloc: heap_limit of [0-9]+ bytes reached: [0-9]+ in use, [0-9]+ more requested; heap profile: .*heap.pb");
  unsigned profiles = 0;
  for (auto& entry : std::filesystem::directory_iterator(testing::TempDir())) {
    if (entry.path().string().find("limit_test_" + std::to_string(getpid())) == std::string::npos)
      continue;
    profiles++;
    EXPECT_GT(std::filesystem::file_size(entry.path()), 100u);
    std::filesystem::remove(entry.path());
  }
  EXPECT_EQ(profiles, 1u);
  // If the profile cannot be written, the process still ends, and the message says so.
  set("dump_prefix", "/nowhere/at/all");
  EXPECT_EXIT(pass_the_limit(), testing::KilledBySignal(SIGABRT),
              "more requested; no heap profile \\(errno 2\\)");
  // A signal handler that has interrupted a holder of one of our locks would wait for itself.
  set("dump_prefix", prefix);
  auto pass_it_in_a_handler = [&] {
    std::vector<void*> blocks = fill(500, 8 * MiB);
    count_held(+1);
    pass_the_limit();
  };
  EXPECT_EXIT(pass_it_in_a_handler(), testing::KilledBySignal(SIGABRT),
              "more requested; no heap profile \\(errno 35\\)");
  set("heap_limit_action", "fail");
  set("dump_prefix", "");
  set("sample", "512K");
}

// The live bytes are half of the limit all the time; the free memory is of another kind than the
// next request.
TEST(SoftLimit, ReturnsFreeMemoryBeforeGrowth) {
  constexpr size_t kRoom = 32 * MiB, kBurst = 16 * MiB;
  size_t before = used_bytes();
  size_t most = 0;
  uint64_t rounds = heap::pressure_statistics().rounds;
  Option delay("purge_delay", 600000, "1000");
  Option soft("heap_soft_limit", before + kRoom);
  for (size_t each : {size_t{100}, 3 * MiB, size_t{5000}, 200 * KiB, size_t{30}, 2 * MiB,
                      size_t{1000}, 5 * MiB}) {
    std::vector<void*> blocks = fill(each, kBurst);
    EXPECT_EQ(blocks.size(), kBurst / each) << "a soft limit refuses nothing";
    most = std::max(most, pages::memory_account.total_bytes());
    free_all(blocks);
  }
  EXPECT_LE(most, before + kRoom + 6 * MiB);
  EXPECT_GT(heap::pressure_statistics().rounds, rounds);
}

TEST(SoftLimit, ALiveHeapAboveItGrowsWithoutAStorm) {
  size_t before = used_bytes();
  Option soft("heap_soft_limit", before + 4 * MiB);
  std::vector<void*> blocks = fill(1000, 8 * MiB);
  uint64_t rounds = heap::pressure_statistics().rounds;
  // Frees and allocates again: without growth nothing is returned, except by the helper thread, if
  // it runs, at its pace.
  for (int i = 0; i < 200000; i++) {
    size_t at = static_cast<size_t>(i) * 7919 % blocks.size();
    sm_free(blocks[at]);
    blocks[at] = sm_malloc(1000);
  }
  EXPECT_LE(heap::pressure_statistics().rounds, rounds + 20);
  free_all(blocks);
}

// The kernel has reported that tasks wait for memory: cached memory is returned, whatever its age.
TEST(Pressure, StallReportReturnsEverything) {
  Option delay("purge_delay", 600000, "1000");
  std::vector<void*> blocks = fill(1000, 16 * MiB);
  free_all(blocks);
  uint64_t times = heap::pressure_statistics().times,
           bytes = heap::pressure_statistics().purged_bytes;
  heap::check_pressure_by_helper(false);
  EXPECT_EQ(heap::pressure_statistics().times, times);
  // The helper thread may be checking at the same time; and after expensive rounds the next one is
  // delayed.
  wait_until(
      [&] {
        heap::check_pressure_by_helper(heap::pressure_statistics().times == times);
        return heap::pressure_statistics().purged_bytes >= bytes + 8 * MiB;
      },
      "the cached memory is returned");
  EXPECT_GT(heap::pressure_statistics().times, times);
  EXPECT_GE(heap::pressure_statistics().purged_bytes, bytes + 8 * MiB);
}

void take(std::optional<heap::PressureCheckLock>& turn) {
  do turn.emplace();
  while (!turn->mine);
}

// The helper thread may be returning everything. Without the wait, a burst in a cgroup of 260 MiB
// grew faster than memory was returned.
TEST(Limits, GrowthWaitsForARunningCheck) {
  Option soft("heap_soft_limit", size_t{64} << 30);
  bool looked = false;
  // On a busy machine a thread may wait longer than the check takes.
  for (int i = 0; i < 10 && !looked; i++) {
    pages::memory_account.set_next_pressure_check(0);
    std::thread grows;
    {
      std::optional<heap::PressureCheckLock> turn;
      take(turn);
      CallWatch watch;
      grows = std::thread([&watch] {
        watch.expect_by_this_thread(SYS_futex);
        heap::check_memory_pressure(0);
      });
      watch.wait_for(1);
    }
    grows.join();
    looked = pages::memory_account.next_pressure_check() != 0;
  }
  EXPECT_TRUE(looked);
}

// Checks the pressure `count` times, and counts the checks that waited for another thread's.
uint64_t waits_of_checks(unsigned count) {
  uint64_t before = heap::pressure_statistics().waits;
  for (unsigned i = 0; i < count; i++) heap::check_memory_pressure(0);
  return heap::pressure_statistics().waits - before;
}

// A signal handler that allocates has interrupted the thread that checks.
TEST(Limits, NoThreadWaitsForItself) {
  Option soft("heap_soft_limit", size_t{64} << 30);
  std::optional<heap::PressureCheckLock> turn;
  take(turn);
  EXPECT_EQ(waits_of_checks(10), 0u);
}

// In the child that thread continues its check, and no other one starts. A check that another
// thread of the parent was making does not count in the child.
TEST(Limits, ForkInAHandlerThatInterruptedACheck) {
  sm_free(sm_malloc(1));  // the fork handlers are installed
  std::optional<heap::PressureCheckLock> turn;
  auto mine_in_child = [] {
    pid_t child = fork();
    if (child == 0) _exit(heap::PressureCheckLock().mine ? 1 : 0);
    int status = 0;
    waitpid(child, &status, 0);
    return WEXITSTATUS(status) == 1;
  };
  take(turn);
  EXPECT_FALSE(mine_in_child());
  std::thread([&] { EXPECT_TRUE(mine_in_child()); }).join();
}

// Returning much memory takes seconds, and each refill checks meanwhile.
TEST(Limits, ThreadsWaitOnceForALongCheck) {
  Option soft("heap_soft_limit", size_t{64} << 30);
  std::optional<heap::PressureCheckLock> turn;
  take(turn);
  std::thread([] { EXPECT_LE(waits_of_checks(40), 1u); }).join();
}

// Other processes may have taken the free space, so the next growth must be noticed early.
TEST(Limits, ShrunkHeapIsCheckedEarlierAgain) {
  void* p = sm_malloc(64 * MiB);
  // The helper thread may be checking, because an earlier test has changed an option: its next
  // threshold is stored at its end.
  size_t agreed = 0;
  ASSERT_TRUE(wait_until(
      [&] {
        heap::check_memory_pressure(0);
        agreed = pages::memory_account.next_pressure_check();
        return agreed >= 64 * MiB;
      },
      "the next check is agreed on"));
  sm_free(p);
  used_bytes();
  // The helper thread may be checking, or have checked before all memory was returned.
  wait_until(
      [&] {
        heap::check_pressure_by_helper(false);
        return pages::memory_account.next_pressure_check() <= agreed - 32 * MiB;
      },
      "an earlier check");
  EXPECT_GE(pages::memory_account.next_pressure_check(),
            pages::MemoryAccount::kFirstPressureCheckBytes);
}

TEST(Limits, CachesFollowTheLeast) {
  size_t budget = heap::thread_cache_budget();
  EXPECT_LE(budget, 32 * MiB);
  {
    Option limit("heap_limit", 160 * MiB);
    EXPECT_LE(heap::thread_cache_budget(), 10 * MiB);
    Option soft("heap_soft_limit", 80 * MiB);
    EXPECT_LE(heap::thread_cache_budget(), 5 * MiB);
  }
  EXPECT_EQ(heap::thread_cache_budget(), budget);
}

TEST(Limits, ThreadsReachThemTogether) {
  Option limit("heap_limit", used_bytes() + 16 * MiB);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; i++) {
    threads.emplace_back([i] {
      for (int round = 0; round < 4; round++) {
        std::vector<void*> blocks = fill(i % 2 == 0 ? 700 : 90000, 12 * MiB);
        free_all(blocks);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  void* p = sm_malloc(8 * MiB);
  EXPECT_NE(p, nullptr) << "all blocks were freed";
  sm_free(p);
}

}  // namespace
}  // namespace seemalloc

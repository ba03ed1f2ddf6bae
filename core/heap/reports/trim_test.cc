// The memory that malloc_trim and a purge on request return, and their results; and a fork while
// memory is returned.
#include <gtest/gtest.h>
#include <seemalloc/seemalloc.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>
#include <vector>

#include "core/api/malloc/test_api.h"
#include "core/base/option_for_test.h"
#include "core/heap/reports/residency.h"
#include "core/heap/reports/statistics.h"
#include "core/os/process/process.h"
#include "core/pages/huge/huge.h"
#include "core/pages/page_heap/page_heap.h"

namespace seemalloc::heap {
namespace {

using options::Id;
using options::OptionForTest;

void* written(size_t bytes) {
  void* p = sm_malloc(bytes);
  memset(p, 1, bytes);
  return p;
}

// Blocks of all kinds: many small, large and huge ones.
std::vector<void*> mixed_blocks() {
  std::vector<void*> blocks;
  for (int i = 0; i < 20000; i++) blocks.push_back(written(16 + static_cast<size_t>(i) % 1000));
  for (int i = 0; i < 40; i++)
    blocks.push_back(written(40 * KiB + static_cast<size_t>(i) * 10 * KiB));
  blocks.push_back(written(5 * MiB));
  return blocks;
}

void free_all(const std::vector<void*>& blocks) {
  for (void* p : blocks) sm_free(p);
}

TEST(Trim, ReturnsWhetherMemoryWasReleased) {
  OptionForTest never(Id::purge, "never");
  free_all(mixed_blocks());
  size_t before = os::resident_set().bytes;
  EXPECT_EQ(sm_malloc_trim(0), 1);
  EXPECT_LE(os::resident_set().bytes + 15 * MiB, before) << "of 10 + 9 + 5";
  EXPECT_EQ(sm_malloc_trim(0), 0) << "there is nothing left";
}

TEST(Trim, PurgeReturnsReleasedBytes) {
  sm_malloc_trim(0);
  OptionForTest never(Id::purge, "never");
  void* p = written(500 * KiB);
  void* huge = written(5 * MiB);
  sm_free(p);
  sm_free(huge);
  size_t given = seemalloc_purge();
  EXPECT_GE(given, 5 * MiB + 500 * KiB);
  EXPECT_LE(given, 6 * MiB);
  EXPECT_EQ(seemalloc_purge(), 0u);
}

// The large spans and the ended lists of a thread that sleeps are released too. A thread free list
// and an empty span of each class need its cooperation and stay.
TEST(Trim, ReleasesCachesOfSleepingThreads) {
  OptionForTest never(Id::purge, "never");
  std::atomic<int> stage{0};
  std::thread sleeper([&] {
    free_all(mixed_blocks());
    stage = 1;
    while (stage == 1) std::this_thread::yield();
  });
  while (stage == 0) std::this_thread::yield();
  size_t before = os::resident_set().bytes;
  EXPECT_GE(seemalloc_purge(), 15 * MiB);
  EXPECT_LE(os::resident_set().bytes + 15 * MiB, before);
  stage = 2;
  sleeper.join();
}

#ifndef __SANITIZE_THREAD__  // TSan does not allow threads in a child
// Memory that the parent's threads were returning is available to the child, and the child's
// counters are right.
TEST(Trim, ForkWhileMemoryIsReturned) {
  OptionForTest eager(Id::purge, "eager");
  std::atomic<bool> done{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; t++) {
    threads.emplace_back([&] {
      while (!done) {
        std::vector<void*> blocks;
        for (int i = 0; i < 40; i++) blocks.push_back(written(100 * KiB));
        free_all(blocks);
        seemalloc_purge();
      }
    });
  }
  for (int i = 0; i < 30; i++) {
    pid_t child = fork();
    if (child == 0) {
      alarm(60);
      for (int round = 0; round < 3; round++) free_all(mixed_blocks());
      sm_malloc_trim(0);
      Residency r = residency(statistics());
      _exit(r.kernel_answered && r.dirty == 0 && r.unused == 0 &&
                    pages::page_statistics().dirty_bytes == 0
                ? 0
                : 1);
    }
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0) << "fork " << i;
  }
  done = true;
  for (std::thread& thread : threads) thread.join();
}
#endif

}  // namespace
}  // namespace seemalloc::heap

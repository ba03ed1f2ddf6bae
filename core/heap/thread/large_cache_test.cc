// Large spans kept by their threads: reused, bounded, and released by ticks.
#include "core/heap/thread/large_cache.h"

#include <gtest/gtest.h>
#include <seemalloc/seemalloc.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <new>
#include <random>
#include <thread>
#include <vector>

#include "core/api/malloc/test_api.h"
#include "core/base/options.h"
#include "core/base/seed_for_test.h"
#include "core/base/units.h"
#include "core/heap/maintenance/housekeeping.h"
#include "core/heap/maintenance/purge_all.h"
#include "core/heap/reports/statistics.h"
#include "core/os/kernel/fault.h"
#include "core/os/kernel/memory.h"
#include "core/pages/page_heap/page_heap.h"

namespace seemalloc::heap {
namespace {

size_t used_bytes() { return pages::page_statistics().used_bytes; }
size_t large_bytes_live() { return statistics().large_bytes; }

TEST(LargeCache, TheNextBlockOfTheSizeIsTheOneJustFreed) {
  for (size_t bytes : {40 * KiB, 256 * KiB, 1 * MiB}) {
    void* p = sm_malloc(bytes);
    sm_free(p);
    EXPECT_EQ(sm_malloc(bytes), p) << bytes;
    sm_free(p);
  }
}

// A forked child resets every heap's cache. The pages of unused ones must not become the child's
// own memory.
TEST(LargeCache, ResettingAnEmptyOneWritesNothing) {
  size_t bytes = round_up(sizeof(LargeCache), os::page_bytes());
  void* memory = os::map(bytes, os::Reason::kHuge);
  LargeCache* cache = new (memory) LargeCache();
  ASSERT_EQ(mprotect(memory, bytes, PROT_READ), 0);
  EXPECT_EXIT((cache->reset(), _exit(0)), testing::ExitedWithCode(0), "");
  os::unmap(memory, bytes, os::Reason::kHuge);
}

TEST(LargeCache, AnEighthMayBeWastedNotMore) {
  purge_all();
  void* p = sm_malloc(96 * KiB);
  sm_free(p);
  void* smaller = sm_malloc(88 * KiB);
  EXPECT_EQ(smaller, p);
  EXPECT_EQ(sm_malloc_usable_size(smaller), 96 * KiB);
  sm_free(smaller);
  void* half = sm_malloc(48 * KiB);
  EXPECT_NE(half, p);
  sm_free(half);
}

// All of them are found again; of each size the one freed last comes first.
TEST(LargeCache, KeepsManySizesAtOnce) {
  purge_all();
  set_large_cache_limits(1);
  std::vector<void*> blocks;
  for (size_t pages = 5; pages <= 14; pages++) {
    for (int i = 0; i < 2; i++) blocks.push_back(sm_malloc(pages * kPageBytes));
  }
  for (void* p : blocks) sm_free(p);
  size_t used = used_bytes();
  for (size_t pages = 5, i = 0; pages <= 14; pages++, i += 2) {
    EXPECT_EQ(sm_malloc(pages * kPageBytes), blocks[i + 1]);
    EXPECT_EQ(sm_malloc(pages * kPageBytes), blocks[i]);
  }
  EXPECT_EQ(used_bytes(), used);
  for (void* p : blocks) sm_free(p);
}

// A request that would accept a longer span does not find one that has been taken, whether that was
// first in its list or freed last.
TEST(LargeCache, TakenSpansAreNotFound) {
  purge_all();
  void* longer[2] = {sm_malloc(176 * KiB), sm_malloc(176 * KiB)};
  for (int freed : {1, 2}) {
    for (int i = 0; i < freed; i++) sm_free(longer[i]);
    for (int i = freed; i-- > 0;) EXPECT_EQ(sm_malloc(176 * KiB), longer[i]);
    void* p = sm_malloc(160 * KiB);
    EXPECT_EQ(sm_malloc_usable_size(p), 160 * KiB);
    sm_free(p);
  }
  for (void* p : longer) sm_free(p);
  EXPECT_TRUE(for_each_live_block([](void*, void*, size_t) {}, nullptr));
}

// Sizes that are no longer requested do not keep a new one out.
TEST(LargeCache, EvictsForANewSize) {
  purge_all();
  set_large_cache_limits(1);
  std::vector<void*> blocks(100);
  for (void*& p : blocks) p = sm_malloc(40 * KiB);
  for (void* p : blocks) sm_free(p);
  void* p = sm_malloc(1 * MiB);
  sm_free(p);
  EXPECT_EQ(sm_malloc(1 * MiB), p);
  sm_free(p);
}

TEST(LargeCache, CallocClearsUsedMemory) {
  auto* p = static_cast<unsigned char*>(sm_malloc(256 * KiB));
  memset(p, 0xA5, 256 * KiB);
  sm_free(p);
  auto* again = static_cast<unsigned char*>(sm_calloc(1, 256 * KiB));
  for (size_t i = 0; i < 256 * KiB; i++) ASSERT_EQ(again[i], 0) << i;
  sm_free(again);
}

TEST(LargeCache, ABlockInItIsFree) {
  void* p = sm_malloc(200 * KiB);
  size_t live = large_bytes_live();
  sm_free(p);
  EXPECT_EQ(large_bytes_live() + 200 * KiB, live);
  EXPECT_DEATH(sm_free(p), "double free");
  EXPECT_DEATH(sm_malloc_usable_size(p), "freed");
}

TEST(LargeCache, KeepsFewBytes) {
  purge_all();
  size_t before = used_bytes();
  std::vector<void*> blocks(100);
  for (void*& p : blocks) p = sm_malloc(500 * KiB);
  for (void* p : blocks) sm_free(p);
  EXPECT_LE(used_bytes(), before + 4 * MiB);
}

TEST(LargeCache, AThreadThatEndsKeepsNothing) {
  purge_all();
  size_t before = used_bytes();
  std::thread([] { sm_free(sm_malloc(500 * KiB)); }).join();
  EXPECT_LE(used_bytes(), before + 64 * KiB);
}

// TSan does not allow a child of a process with threads to start one: the helper.
#ifndef __SANITIZE_THREAD__
// In the child the spans on lists and the one freed last belong to the forking thread, each of them
// once; those of other threads are released.
TEST(LargeCache, AForkedChildHasThemOnce) {
  purge_all();
  void* blocks[3];
  for (void*& p : blocks) p = sm_malloc(300 * KiB);
  for (void* p : blocks) sm_free(p);
  EXPECT_EXIT(
      {
        for (int i = 2; i >= 0; i--) {
          if (sm_malloc(300 * KiB) != blocks[i]) _exit(1);
        }
        void* fresh = sm_malloc(300 * KiB);
        _exit(fresh == blocks[0] || fresh == blocks[1] || fresh == blocks[2] ? 2 : 0);
      },
      testing::ExitedWithCode(0), "");
}
#endif

// An idle thread's spans are released without its help. If the kernel has no membarrier they stay.
TEST(LargeCache, IdleThreadsAreEmptied) {
  std::atomic<int> stage{0};
  std::thread idle([&] {
    sm_free(sm_malloc(500 * KiB));
    stage = 1;
    while (stage != 2) std::this_thread::yield();
  });
  while (stage != 1) std::this_thread::yield();
  size_t full = used_bytes();
  {
    os::FailCalls refuse(SYS_membarrier, EPERM);
    purge_all();
    EXPECT_EQ(used_bytes(), full);
  }
  purge_all();
  EXPECT_LE(used_bytes(), full - 500 * KiB);
  stage = 2;
  idle.join();
}

TEST(LargeCache, TimeEmptiesThem) {
  std::atomic<bool> freed{false}, done{false};
  std::thread idle([&] {
    sm_free(sm_malloc(500 * KiB));
    freed = true;
    while (!done) std::this_thread::yield();
  });
  while (!freed) std::this_thread::yield();
  size_t full = used_bytes();
  bool emptied = false;
  for (int i = 0; i < 400 && !emptied; i++) {  // some half delays; far more time than needed
    os::advance_test_clock(50 * kMillisecondNs);
    tick();
    emptied = used_bytes() + 500 * KiB <= full;
  }
  EXPECT_TRUE(emptied);
  done = true;
  idle.join();
}

// Threads use their caches while another thread empties them all the time. Each block carries its
// owner's mark.
TEST(LargeCache, EmptiedWhileInUse) {
  unsigned seed = seed_for_test();
  SCOPED_TRACE(seed);
  std::atomic<bool> done{false};
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 3; t++) {
    threads.emplace_back([&, t] {
      std::mt19937 random(seed + t);
      unsigned* live[4] = {};
      for (int i = 0; i < 20000; i++) {
        unsigned*& p = live[random() % 4];
        if (p != nullptr) {
          EXPECT_EQ(*p, t);
          sm_free(p);
        }
        p = static_cast<unsigned*>(sm_malloc((1 + random() % 12) * 40 * KiB));
        *p = t;
      }
      for (unsigned* p : live) sm_free(p);
    });
  }
  std::thread emptier([&] {
    while (!done) purge_all();
  });
  for (std::thread& t : threads) t.join();
  done = true;
  emptier.join();
  EXPECT_TRUE(for_each_live_block([](void*, void*, size_t) {}, nullptr));
}

}  // namespace
}  // namespace seemalloc::heap

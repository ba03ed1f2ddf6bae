// Abandoned heaps, between two threads: kept as they are if they are small, emptied if no thread
// takes them.
#include <gtest/gtest.h>
#include <seemalloc/seemalloc.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>
#include <vector>

#include "core/api/helper/without_helper_for_test.h"
#include "core/api/malloc/test_api.h"
#include "core/api/sampling/without_samples_for_test.h"
#include "core/heap/maintenance/housekeeping.h"
#include "core/heap/maintenance/purge_all.h"
#include "core/heap/maintenance/registry.h"
#include "core/heap/reports/statistics.h"
#include "core/heap/thread/sample_distance.h"
#include "core/heap/thread/thread_cache.h"
#include "core/heap/thread/thread_heap.h"
#include "core/os/kernel/fault.h"
#include "core/pages/span/page_map.h"

namespace seemalloc::heap {
namespace {

constexpr size_t kBytes = 1000;
constexpr size_t kBlocks = 400;  // more than the shared blocks of a class

using Blocks = std::vector<void*>;

const void* owner_of(void* p) { return pages::page_map.span_of(p)->owner_acquire(); }
bool is_unowned(void* p) { return owner_of(p) == reinterpret_cast<const void*>(Span::kNoOwner); }

Blocks fill(size_t blocks = kBlocks) {
  Blocks all(blocks);
  for (void*& p : all) p = sm_malloc(kBytes);
  return all;
}
void free_all(const Blocks& all) {
  for (void* p : all) sm_free(p);
}
// The blocks of a thread that has ended.
Blocks left_by_ended_threads(size_t blocks = kBlocks) {
  Blocks all;
  std::thread([&] { all = fill(blocks); }).join();
  return all;
}

// The blocks of this many threads, which end together.
std::vector<Blocks> left_behind_together(int count, size_t blocks_of_each) {
  std::vector<Blocks> all(static_cast<size_t>(count));
  std::vector<std::thread> threads;
  std::atomic<int> filled{0};
  for (Blocks& blocks : all) {
    threads.emplace_back([&] {
      blocks = fill(blocks_of_each);
      filled++;
      while (filled != count) std::this_thread::yield();
    });
  }
  for (std::thread& t : threads) t.join();
  return all;
}

void count_one(void* context, void*, size_t) { ++*static_cast<size_t*>(context); }
size_t live_blocks() {
  size_t count = 0;
  EXPECT_TRUE(for_each_live_block(count_one, &count));
  return count;
}

// From here on no tick is due until time passes, however slow the machine is.
void tick_once() {
  os::advance_test_clock(10 * kSecondNs);
  tick();
}

TEST(AbandonedHeap, TheNextThreadHasTheHeapAsItIs) {
  purge_all();
  Blocks all = left_by_ended_threads();
  // A tick has emptied the heap just then.
  for (int i = 0; i < 10 && is_unowned(all.back()); i++) {
    free_all(all);
    all = left_by_ended_threads();
  }
  const void* owner = owner_of(all.back());
  ASSERT_FALSE(is_unowned(all.back()));
  std::thread([&] {
    void* p = sm_malloc(kBytes);
    EXPECT_EQ(thread_cache.heap, owner);
    sm_free(p);
    sm_free(all.back());  // it owns this block now
    EXPECT_EQ(pages::page_map.span_of(all.back())->remote.load(), 0u);
    all.pop_back();
    free_all(all);
  }).join();
}

TEST(AbandonedHeap, NothingIsLostOrCountedTwice) {
  purge_all();
  size_t before = live_blocks();
  size_t live_bytes = statistics().live_bytes;
  for (int i = 0; i < 20; i++) {
    std::thread([] {
      Blocks all[3];
      for (Blocks& blocks : all) blocks = fill(30);
      for (Blocks& blocks : all) free_all(blocks);
    }).join();
    EXPECT_EQ(live_blocks(), before) << i;
    EXPECT_LE(statistics().live_bytes, live_bytes + 4096) << i;
  }
}

uint64_t given_to_the_program() {
  Statistics s = statistics();
  return s.allocated_bytes - s.unused_list_bytes;
}

// Makes the thread free list of this size have at least `least` blocks.
void make_list(size_t bytes, size_t least) {
  auto length = [bytes] {
    size_t count = 0;
    for (Block* block = thread_cache.heads[class_of(bytes)]; block != nullptr; block = block->next)
      count++;
    return count;
  };
  Blocks all;
  do all.push_back(sm_malloc(bytes));
  while (length() < least);
  free_all(all);
}

// The next thread gets the lists too: its first malloc takes the next block of the earlier thread's
// list.
TEST(AbandonedHeap, NextThreadReusesLists) {
  tick_once();
  purge_all();
  constexpr size_t kRounds = 5, kSizes[] = {64, 200, 1000};
  Block* next[3];
  auto look = [&next, &kSizes] {
    for (int i = 0; i < 3; i++) next[i] = thread_cache.heads[class_of(kSizes[i])];
  };
  std::thread([&] {
    for (size_t bytes : kSizes) make_list(bytes, kRounds + 1);
    look();
  }).join();
  uint64_t refills[3];
  for (int i = 0; i < 3; i++) refills[i] = statistics().classes[class_of(kSizes[i])].refills;
  for (size_t round = 0; round < kRounds; round++) {
    std::thread([&] {
      for (size_t i = 0; i < 3; i++) {
        size_t which = (i + round) % 3;  // the thread has no heap yet at its first malloc
        void* p = sm_malloc(kSizes[which]);
        EXPECT_EQ(p, next[which]) << kSizes[which];
        sm_free(p);
      }
      look();
    }).join();
  }
  for (int i = 0; i < 3; i++)
    EXPECT_EQ(statistics().classes[class_of(kSizes[i])].refills, refills[i]) << kSizes[i];
}

// A thread that ends after the option `sample` has changed got its lists before the change: the
// next thread must not have them.
TEST(AbandonedHeap, ListsOfBeforeAnOptionAreNotForTheNextThread) {
  tick_once();
  purge_all();
  std::thread([] {
    make_list(64, 8);
    invalidate_sample_distances();
    sm_free(sm_malloc(1000));
    EXPECT_NE(thread_cache.heads[class_of(64)], nullptr);
  }).join();
  std::thread([] {
    sm_free(sm_malloc(1000));
    EXPECT_EQ(thread_cache.heads[class_of(64)], nullptr);
  }).join();
}

TEST(AbandonedHeap, ListBytesAreExact) {
  tick_once();
  purge_all();
  auto expect = [](uint64_t bytes, uint64_t before) {
    EXPECT_EQ(given_to_the_program() - before, bytes);
    purge_all();  // blocks that are left in the lists were never given to the program
    EXPECT_EQ(given_to_the_program() - before, bytes);
  };
  for (size_t threads : {1, 2, 7}) {
    uint64_t before = given_to_the_program();
    uint64_t bytes = 0;
    for (size_t t = 0; t < threads; t++) {
      std::thread([&] {
        uint64_t mine = allocated_by_this_thread();
        EXPECT_LT(mine, MiB);
        uint64_t first = 0;
        for (size_t i = 0; i < 50 * (t + 1); i++) {
          size_t size = 8 + i * 37 % 4000;
          sm_free(sm_malloc(size));
          bytes += kClasses[class_of(size)].bytes;
          if (i == 9) mine = allocated_by_this_thread(), first = bytes;
        }
        EXPECT_EQ(allocated_by_this_thread() - mine, bytes - first);
      }).join();
    }
    expect(bytes, before);
  }
}

// Frees more than a list of gathered blocks holds: the last blocks of a class are not lost, and the
// next thread publishes them.
TEST(AbandonedHeap, AFullGatheredListIsNotMadeLonger) {
  purge_all();
  size_t before = live_blocks();
  std::atomic<bool> done{false};
  Blocks others;
  std::thread owner([&] {
    others = fill(4000);
    done = true;
    while (done) std::this_thread::yield();
  });
  while (!done) std::this_thread::yield();
  for (int round = 0; round < 50; round++) {
    std::thread([&] {
      for (int i = 0; i < 40; i++) {
        sm_free(others.back());
        others.pop_back();
        if (i % 3 == 0) others.push_back(sm_malloc(kBytes));
      }
    }).join();
  }
  free_all(others);
  done = false;
  owner.join();
  purge_all();
  EXPECT_EQ(live_blocks(), before);
}

TEST(AbandonedHeap, PurgingHandsOn) {
  tick_once();
  Blocks all = left_by_ended_threads();
  EXPECT_FALSE(is_unowned(all.back()));
  purge_all();
  EXPECT_TRUE(is_unowned(all.back()));
  free_all(all);
}

TEST(AbandonedHeap, TimeHandsOn) {
  tick_once();
  Blocks all = left_by_ended_threads();
  bool unowned = is_unowned(all.back());
  EXPECT_FALSE(unowned);
  for (int i = 0; i < 400 && !unowned; i++) {  // some half delays; far more time than needed
    os::advance_test_clock(50 * kMillisecondNs);
    tick();
    unowned = is_unowned(all.back());
  }
  EXPECT_TRUE(unowned);
  free_all(all);
}

TEST(AbandonedHeap, RemoteFreesAreReused) {
  purge_all();
  size_t before = live_blocks();
  Blocks all = left_by_ended_threads();
  free_all(all);  // remotely: their owner has no thread
  std::thread([&] { free_all(fill()); }).join();
  EXPECT_EQ(live_blocks(), before);
  free_all(left_by_ended_threads());
  purge_all();
  EXPECT_EQ(live_blocks(), before);
}

TEST(AbandonedHeap, MuchIsHandedOnAtOnce) {
  purge_all();
  Blocks all = left_by_ended_threads(4 * MiB / kBytes);
  EXPECT_TRUE(is_unowned(all.front()));
  EXPECT_TRUE(is_unowned(all.back()));
  free_all(all);
}

TEST(AbandonedHeap, NumberOfAbandonedHeapsIsLimited) {
  tick_once();
  purge_all();
  constexpr int kThreads = 40;
  std::vector<Blocks> all = left_behind_together(kThreads, 50);
  int unowned = 0;
  for (const Blocks& blocks : all) unowned += is_unowned(blocks.back());
  EXPECT_GE(unowned, kThreads - 16);
  EXPECT_LT(unowned, kThreads);
  for (const Blocks& blocks : all) free_all(blocks);
}

// The limit holds for a few large heaps as for many small ones.
TEST(AbandonedHeap, TogetherTheyKeepNoMoreThanSixteenMiB) {
  tick_once();
  purge_all();
  constexpr int kThreads = 12;
  std::vector<Blocks> all = left_behind_together(kThreads, 5 * MiB / 2 / kBytes);
  size_t bytes = 0, count = 0;
  for (ThreadHeap* heap = all_heaps(); heap != nullptr; heap = heap->next_all) {
    if (heap->state.load() != HeapState::kAbandoned) continue;
    EXPECT_LE(heap->abandoned_bytes, 4 * MiB);
    bytes += heap->abandoned_bytes;
    count++;
  }
  EXPECT_LE(bytes, 16 * MiB);
  EXPECT_GE(bytes, 2 * MiB);
  EXPECT_LT(count, size_t{kThreads});
  for (const Blocks& blocks : all) free_all(blocks);
}

// While a walk runs no thread changes lists, the helper thread included (also under TSan).
TEST(AbandonedHeap, AreNotHandedOnUnderAWalk) {
  std::atomic<bool> stop{false};
  std::thread helper([&stop] {
    while (!stop) {
      os::advance_test_clock(kSecondNs);
      tick(true);
      purge_all();
    }
  });
  for (int i = 0; i < 300; i++) {
    Blocks all = left_by_ended_threads();
    EXPECT_GE(live_blocks(), all.size());
    free_all(all);
  }
  stop = true;
  helper.join();
}

#ifndef __SANITIZE_THREAD__  // TSan does not allow threads in a child
TEST(AbandonedHeap, AForkedChildMayUseThem) {
  Blocks all = left_by_ended_threads();
  pid_t child = fork();
  if (child == 0) {
    bool sound = false;
    std::thread([&] {
      free_all(all);
      free_all(fill());
      purge_all();
      sound = for_each_live_block([](void*, void*, size_t) {}, nullptr);
    }).join();
    _exit(sound ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  free_all(all);
}

// The child keeps the blocks of each thread's lists, wherever in its heap's code the thread was at
// the fork.
TEST(AbandonedHeap, NothingIsLostByAForkWhileThreadsEnd) {
  tick_once();
  purge_all();
  size_t before = live_blocks();
  std::atomic<bool> stop{false};
  auto begin_and_end = [&stop](size_t bytes) {
    while (!stop) {
      std::thread([bytes] {
        for (int i = 0; i < 40; i++) sm_free(sm_malloc(bytes + 100 * (i % 8)));
      }).join();
    }
  };
  std::thread some(begin_and_end, 100), others(begin_and_end, 2000);
  std::thread ticker([&stop] {
    while (!stop) release_abandoned_heaps();
  });
  constexpr int kForks = 300;
  int lost = 0;
  for (int i = 0; i < kForks; i++) {
    pid_t child = fork();
    if (child == 0) {
      purge_all();
      size_t more = live_blocks() - before;
      // One block of each missing thread, and the blocks that the threads were started with. Rarely
      // a list that refill_from_local_frees was just taking.

      _exit(static_cast<int>(more < 100 ? more : 100));
    }
    int status = -1;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status));
    if (WEXITSTATUS(status) > 12) lost++;
  }
  EXPECT_LE(lost, 3);
  stop = true;
  some.join();
  others.join();
  ticker.join();
}
#endif

}  // namespace
}  // namespace seemalloc::heap

// Threads that end without running our code: other threads read their lists only if the memory is
// mapped and still theirs, and get their blocks.
#include "core/heap/maintenance/orphaned_heaps.h"

#include <errno.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <seemalloc/seemalloc.h>
#include <sys/mman.h>
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
#include "core/heap/thread/thread_cache.h"
#include "core/os/kernel/fault.h"
#include "core/os/kernel/ids.h"
#include "core/os/kernel/memory.h"
#include "core/os/kernel/waits_for_test.h"
#include "core/os/process/threads.h"
#include "core/pages/span/page_map.h"

namespace seemalloc::heap {
namespace {

constexpr size_t kBytes = 1000, kBlocks = 400;

using Blocks = std::vector<void*>;

bool is_unowned(void* p) {
  return pages::page_map.span_of(p)->owner_acquire() ==
         reinterpret_cast<const void*>(Span::kNoOwner);
}
void free_all(const Blocks& all) {
  for (void* p : all) sm_free(p);
}
void count_one(void* context, void*, size_t) { ++*static_cast<size_t*>(context); }
size_t live_blocks() {
  size_t count = 0;
  EXPECT_TRUE(for_each_live_block(count_one, &count));
  return count;
}

TEST(LostThreads, ListsAreReadOnlyIfMappedAndOwned) {
  size_t page = os::page_bytes();
  void* memory =
      mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  ThreadHeap heap, another;
  HeapBody body{};
  heap.body = &body;
  Block block{};
  Block* lists[kClassCount];
  Block* list = nullptr;
  EXPECT_FALSE(copy_free_lists(heap, lists)) << "it has no thread";
  auto* cache = static_cast<ThreadCache*>(memory);
  heap.cache = cache;
  cache->heads[3] = &block;
  EXPECT_FALSE(copy_free_lists(heap, lists)) << "it has no owner";
  cache->heap = &another;
  EXPECT_FALSE(copy_free_list(heap, 3, &list)) << "another's";
  cache->heap = &heap;
  ASSERT_TRUE(copy_free_lists(heap, lists));
  EXPECT_EQ(lists[3], &block);
  EXPECT_EQ(lists[2], nullptr);
  ASSERT_TRUE(copy_free_list(heap, 3, &list));
  EXPECT_EQ(list, &block);
#ifndef __SANITIZE_THREAD__  // under TSan the lists are read directly
  munmap(memory, page);
  EXPECT_FALSE(copy_free_lists(heap, lists));
  EXPECT_FALSE(copy_free_list(heap, 3, &list));
  heap.cache = reinterpret_cast<ThreadCache*>(static_cast<char*>(memory) + page -
                                              offsetof(ThreadCache, heads[1]));
  EXPECT_FALSE(copy_free_list(heap, 3, &list)) << "half of it";
#endif
  munmap(memory, 2 * page);
  body.saved_lists.heads[3] = &block;
  heap.cache = &body.saved_lists;
  ASSERT_TRUE(copy_free_list(heap, 3, &list)) << "its abandoned heap keeps the list";
  EXPECT_EQ(list, &block);
}

#ifndef __SANITIZE_THREAD__  // TSan has to see each thread's end

std::atomic<int> vanished_id{0};
void* live_and_vanish(void* blocks) {
  vanished_id = os::thread_id();
  Blocks& all = *static_cast<Blocks*>(blocks);
  for (void*& p : all) p = sm_malloc(kBytes);
  for (int i = 0; i < 5; i++) sm_free(sm_malloc(100));
  syscall(SYS_exit, 0);
  return nullptr;
}
// The blocks of a thread that has ended without running our code. Its thread-local memory stays
// where it was, kept by the C library.
Blocks vanished() {
  Blocks all(kBlocks);
  pthread_t thread;
  EXPECT_EQ(pthread_create(&thread, nullptr, live_and_vanish, &all), 0);
  EXPECT_EQ(pthread_join(thread, nullptr), 0);
  // The kernel may still show it for a moment.
  wait_until([] { return !os::is_thread(vanished_id); }, "the end of the thread");
  return all;
}
// From here on no tick is due in any thread until time passes. This thread has the oldest heap: if
// a lost thread had it, the next thread with that memory would take it.
void tick_once() {
  sm_free(sm_malloc(kBytes));
  os::advance_test_clock(10 * kSecondNs);
  tick();
}
ThreadHeap* heap_of(void* p) {
  return static_cast<ThreadHeap*>(const_cast<void*>(pages::page_map.span_of(p)->owner_acquire()));
}

TEST(LostThreads, BlocksOfLostThreadsAreReused) {
  tick_once();
  purge_all();
  size_t before = live_blocks();
  unsigned heaps = active_heaps();
  for (int i = 0; i < 10; i++) {
    Blocks all = vanished();
    ASSERT_FALSE(is_unowned(all.back()));
    EXPECT_EQ(live_blocks(), before + kBlocks);
    uint64_t untaken = statistics().unused_list_bytes;
    purge_all();
    EXPECT_TRUE(is_unowned(all.back()));
    EXPECT_EQ(active_heaps(), heaps);
    EXPECT_EQ(live_blocks(), before + kBlocks);
    EXPECT_EQ(statistics().unused_list_bytes, untaken);
    free_all(all);
    EXPECT_EQ(live_blocks(), before);
  }
}

TEST(LostThreads, TimeHandsOn) {
  tick_once();
  Blocks all = vanished();
  EXPECT_FALSE(is_unowned(all.back()));
  for (int i = 0; i < 400 && !is_unowned(all.back()); i++) {
    os::advance_test_clock(50 * kMillisecondNs);
    tick();
  }
  EXPECT_TRUE(is_unowned(all.back()));
  free_all(all);
}

TEST(LostThreads, OfManyAllAreFoundInTurn) {
  tick_once();
  purge_all();
  constexpr int kLiving = 300;
  unsigned heaps = active_heaps();
  Progress ready, done;
  std::vector<std::thread> living;
  Blocks all = vanished();  // behind all others
  for (int i = 0; i < kLiving; i++) {
    living.emplace_back([&] {
      sm_free(sm_malloc(kBytes));
      ready.advance();
      done.wait_for(1);
    });
  }
  ready.wait_for(kLiving);
  EXPECT_FALSE(is_unowned(all.back()));
  for (int i = 0; i < 400 && !is_unowned(all.back()); i++) {
    os::advance_test_clock(50 * kMillisecondNs);
    tick();
  }
  EXPECT_TRUE(is_unowned(all.back()));
  EXPECT_EQ(active_heaps(), heaps + kLiving) << "living threads keep their heaps";
  done.advance();
  for (std::thread& thread : living) thread.join();
  free_all(all);
}

TEST(LostThreads, WhereThatIsNotCertainTheyKeepIt) {
  tick_once();
  Blocks all = vanished();
  ThreadHeap* heap = heap_of(all.back());
  {
    os::FailCalls refuse(SYS_tgkill, EPERM);
    purge_all();
    EXPECT_GT(refuse.refusals(), 0u);
    EXPECT_EQ(heap_of(all.back()), heap) << "the kernel does not tell";
  }
  int process = heap->process_id.exchange(1);
  purge_all();
  EXPECT_EQ(heap_of(all.back()), heap)
      << "the thread of another process, which shares this one's memory";
  heap->process_id = process;
  heap->slow_lock.lock();  // as if the thread had been lost in the middle of a slow path
  release_orphaned_heaps(true);
  heap->slow_lock.unlock();
  EXPECT_EQ(heap_of(all.back()), heap);
  purge_all();
  EXPECT_TRUE(is_unowned(all.back()));
  free_all(all);
}

TEST(LostThreads, AForkedChildIsSound) {
  tick_once();
  Blocks all = vanished();
  Progress ready, done;
  Blocks others;
  std::thread living([&] {  // most often in the memory of the lost one
    for (size_t i = 0; i < kBlocks; i++) others.push_back(sm_malloc(kBytes));
    ready.advance();
    done.wait_for(1);
  });
  ready.wait_for(1);
  pid_t child = fork();
  if (child == 0) {
    bool sound = for_each_live_block([](void*, void*, size_t) {}, nullptr);
    free_all(all);
    free_all(others);
    purge_all();
    sound =
        sound && for_each_live_block([](void*, void*, size_t) {}, nullptr) && active_heaps() <= 1;
    _exit(sound ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  done.advance();
  living.join();
  free_all(all);
  free_all(others);
}

#endif

}  // namespace
}  // namespace seemalloc::heap

// Remote free with threads; built with TSan too.
#include "core/heap/slow_paths/remote.h"

#include <gtest/gtest.h>
#include <seemalloc/seemalloc.h>

#include <algorithm>
#include <atomic>
#include <random>
#include <thread>
#include <vector>

#include "core/api/malloc/test_api.h"
#include "core/base/seed_for_test.h"
#include "core/heap/maintenance/purge_all.h"
#include "core/heap/maintenance/registry.h"
#include "core/heap/reports/statistics.h"
#include "core/heap/spans/central.h"
#include "core/heap/spans/publish.h"
#include "core/pages/page_heap/page_heap.h"
#include "core/pages/span/page_map.h"

namespace seemalloc::heap {
namespace {

void count_one(void* context, void*, size_t) { ++*static_cast<size_t*>(context); }
size_t live_blocks() {
  size_t count = 0;
  EXPECT_TRUE(for_each_live_block(count_one, &count));
  return count;
}

size_t used_bytes() { return pages::page_statistics().used_bytes; }

// A ring of slots: one thread fills them, others empty them.
struct Ring {
  std::vector<std::atomic<void*>> slots = std::vector<std::atomic<void*>>(512);
  std::atomic<bool> done{false};
};

void produce(Ring& ring, int blocks, unsigned seed) {
  std::mt19937 random(seed_for_test() + seed);
  for (int i = 0; i < blocks; i++) {
    void* p = sm_malloc(random() % 400);
    *static_cast<volatile char*>(p) = 1;
    void* old = ring.slots[random() % ring.slots.size()].exchange(p, std::memory_order_acq_rel);
    if (old != nullptr) sm_free(old);
  }
}

void consume(Ring& ring, unsigned seed) {
  std::mt19937 random(seed_for_test() + seed);
  while (!ring.done.load()) {
    for (int i = 0; i < 64; i++) {
      void* p =
          ring.slots[random() % ring.slots.size()].exchange(nullptr, std::memory_order_acq_rel);
      if (p != nullptr) sm_free(p);
    }
  }
}

TEST(Remote, ProducersAndConsumersLoseNothing) {
  size_t before = live_blocks();
  Ring ring;
  std::vector<std::thread> producers, consumers;
  for (unsigned i = 0; i < 3; i++) consumers.emplace_back(consume, std::ref(ring), i);
  for (unsigned i = 0; i < 3; i++) producers.emplace_back(produce, std::ref(ring), 100000, 100 + i);
  for (std::thread& t : producers) t.join();
  ring.done = true;
  for (std::thread& t : consumers) t.join();
  for (auto& slot : ring.slots) sm_free(slot.load());
  EXPECT_EQ(live_blocks(), before);
}

// Owners end while other threads still free their blocks: spans change owners in every state of the
// protocol.
TEST(Remote, OwnersThatEndWhileOthersFree) {
  size_t before = live_blocks();
  Ring ring;
  std::vector<std::thread> consumers;
  for (unsigned i = 0; i < 2; i++) consumers.emplace_back(consume, std::ref(ring), i);
  for (unsigned round = 0; round < 200; round++) {
    std::thread a(produce, std::ref(ring), 500, round),
        b(produce, std::ref(ring), 500, round + 1000);
    a.join();
    b.join();
  }
  ring.done = true;
  for (std::thread& t : consumers) t.join();
  for (auto& slot : ring.slots) sm_free(slot.load());
  EXPECT_EQ(live_blocks(), before);
}

// One thread allocates and sleeps, another frees all blocks: the memory is released without the
// owner's help. Spans of many blocks are freed batch by batch, spans of few blocks one by one.
class SleepingOwner : public testing::TestWithParam<size_t> {};
INSTANTIATE_TEST_SUITE_P(Sizes, SleepingOwner, testing::Values(16, 100, 1000, 4096, 8000, 32768));

TEST_P(SleepingOwner, MemoryIsReleased) {
  purge_all();  // the heaps of ended threads keep some spans until the next tick
  std::vector<void*> blocks(40000000 / GetParam());
  std::atomic<int> stage{0};
  std::thread owner([&] {
    for (void*& p : blocks) p = sm_malloc(GetParam());
    stage = 1;
    while (stage != 2) std::this_thread::yield();
  });
  while (stage != 1) std::this_thread::yield();
  size_t full = used_bytes();
  for (void* p : blocks) sm_free(p);
  publish_central_lists(true);  // as two ticks would do
  reclaim_for_sleeping_owners();
  EXPECT_LT(used_bytes(), full / 10) << "of " << full;
  stage = 2;
  owner.join();
}

// The same in random order: all spans wait for most of the time, partly free; and there are no
// ticks.
TEST(Remote, ASleepersLastSpansComeBackToo) {
  std::vector<void*> blocks(60000);
  std::atomic<int> stage{0};
  std::thread owner([&] {
    for (void*& p : blocks) p = sm_malloc(500);
    stage = 1;
    while (stage != 2) std::this_thread::yield();
  });
  while (stage != 1) std::this_thread::yield();
  size_t full = used_bytes();
  std::shuffle(blocks.begin(), blocks.end(), std::mt19937(seed_for_test()));
  std::thread([&] {
    for (void* p : blocks) sm_free(p);
  }).join();
  publish_central_lists(true);
  EXPECT_LT(used_bytes(), full / 5) << "of " << full;
  stage = 2;
  owner.join();
}

// The calling thread's state of the span's class.
const ClassState& class_state(const Span& span) {
  return thread_cache.heap->body->classes[span.size_class];
}

// The short path leaves these cases to free_remote: a full list, double frees, addresses where no
// block starts, spans without an owner.
TEST(Remote, GatherRemoteRejectsRareCases) {
  ASSERT_EQ(seemalloc_profile_stop(), 0);
  // Blocks of one span of this thread: the first blocks of a class are shared, and a list may have
  // blocks of two spans.
  std::vector<Block*> others, blocks;
  Span* span = nullptr;
  while (blocks.size() < kMaxGatheredBlocks) {
    Block* block = static_cast<Block*>(sm_malloc(200));
    Span* its = pages::page_map.span_of(block);
    if (its != span) {
      others.insert(others.end(), blocks.begin(), blocks.end());
      blocks.clear();
      span = its;
    }
    (its->owner() == thread_cache.heap ? blocks : others).push_back(block);
  }
  std::thread([&] {
    sm_free(sm_malloc(3000));  // makes the thread's heap
    auto last = [&](size_t i) { return blocks[blocks.size() - 1 - i]; };
    flush_gathered(*thread_cache.heap);  // a heap taken over from another thread may have some
    size_t before = thread_cache.heap->gathered_bytes;
    EXPECT_FALSE(gather_remote(*thread_cache.heap, span,
                               reinterpret_cast<Block*>(reinterpret_cast<char*>(last(0)) + 8)));
    ASSERT_TRUE(gather_remote(*thread_cache.heap, span, last(0)));
    EXPECT_FALSE(gather_remote(*thread_cache.heap, span, last(0)));
    ASSERT_TRUE(gather_remote(*thread_cache.heap, span, last(1)));
    EXPECT_FALSE(gather_remote(*thread_cache.heap, span, last(0)));
    for (size_t i = 2; i < kMaxGatheredBlocks - 1; i++)
      ASSERT_TRUE(gather_remote(*thread_cache.heap, span, last(i)));
    EXPECT_EQ(class_state(*span).gathered_count, kMaxGatheredBlocks - 1);
    EXPECT_FALSE(gather_remote(*thread_cache.heap, span, last(kMaxGatheredBlocks - 1)));
    EXPECT_EQ(thread_cache.heap->gathered_bytes - before,
              (kMaxGatheredBlocks - 1) * span->block_bytes);
    free_remote(thread_cache.heap, span, last(kMaxGatheredBlocks - 1));
    EXPECT_EQ(class_state(*span).gathered_count, 0u);
    EXPECT_EQ(thread_cache.heap->gathered_bytes, before);
  }).join();
  for (Block* block : others) sm_free(block);
  ASSERT_EQ(seemalloc_profile_start(512 * 1024), 0);
}

TEST(Remote, UnownedBlocksAreNotGathered) {
  Block* lent = nullptr;
  ASSERT_NE(central_take_shared_blocks(20, 1, &lent), 0u);
  sm_free(sm_malloc(1));  // makes this thread's heap
  EXPECT_FALSE(gather_remote(*thread_cache.heap, pages::page_map.span_of(lent), lent));
  sm_free(lent);
}

// No other thread can reach the gathered blocks that a thread keeps: they must be few.
TEST(Remote, SleepingFreersKeepFewBlocks) {
  std::vector<void*> blocks(1600);
  for (void*& p : blocks) p = sm_malloc(30000);
  size_t full = used_bytes();
  std::atomic<int> freed{0};
  std::atomic<bool> done{false};
  std::vector<std::thread> threads;
  for (size_t t = 0; t < 100; t++) {
    threads.emplace_back([&, t] {
      for (size_t i = 0; i < 16; i++) sm_free(blocks[t * 16 + i]);
      freed++;
      while (!done) std::this_thread::yield();
    });
  }
  while (freed != 100) std::this_thread::yield();
  sm_free(sm_malloc(30000));  // the owner is awake: it takes over the published blocks
  for (int i = 0; i < 100; i++) sm_free(sm_malloc(29000));
  EXPECT_LT(used_bytes(), full / 5) << "of " << full;
  done = true;
  for (std::thread& thread : threads) thread.join();
}

TEST(Remote, ThreadEndReleasesEverything) {
  ASSERT_EQ(seemalloc_profile_stop(), 0);  // an empty sampled span per class is kept
  size_t before = used_bytes();
  std::thread([] {
    std::vector<void*> blocks(100000);
    for (size_t i = 0; i < blocks.size(); i++) blocks[i] = sm_malloc(i % 2000);
    for (void* p : blocks) sm_free(p);
  }).join();
  release_abandoned_heaps();  // a small heap waits for the next thread until a tick
  // A small shared span per class stays for a while.
  for (int i = 0; i < 2; i++) central_release_empty_shared();
  EXPECT_LE(used_bytes(), before + 16 * kPageBytes);
}

// Phase 2, in another thread, finds the memory that phase 1 freed.
TEST(Remote, PhasesShareMemory) {
  auto phase = [] {
    std::vector<void*> blocks(200000);
    for (void*& p : blocks) p = sm_malloc(200);
    size_t used = used_bytes();
    for (void* p : blocks) sm_free(p);
    return used;
  };
  size_t first = 0, second = 0;
  std::thread([&] { first = phase(); }).join();
  std::thread([&] { second = phase(); }).join();
  EXPECT_LE(second, first + first / 20);
}

}  // namespace
}  // namespace seemalloc::heap

// Refills, remote frees and the states of spans, as statistics() counts them.
#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "core/api/test_api.h"
#include "core/base/options.h"
#include "core/heap/statistics.h"
#include "core/heap/thread_heap.h"

namespace seemalloc::heap {
namespace {

constexpr unsigned kClass = class_of(208);
constexpr size_t kBytes = kClasses[kClass].bytes;

std::vector<void*> allocate(size_t count) {
  std::vector<void*> blocks(count);
  for (void*& block : blocks) block = sm_malloc(kBytes);
  return blocks;
}

TEST(Counters, RefillsAreCountedByClassAndSurviveTheirThread) {
  Statistics before = statistics();
  std::thread([] {
    for (void* block : allocate(20000)) sm_free(block);
  }).join();
  Statistics after = statistics();
  uint64_t refills = after.classes[kClass].refills - before.classes[kClass].refills;
  // A list is at least one block, and at most what a span holds.
  EXPECT_GE(refills, 20000 / (kMaxSpanPages * kPageBytes / kBytes));
  EXPECT_LE(refills, 20000u);
  for (unsigned i = 0; i < kClassCount; i++) {
    if (i != kClass) EXPECT_EQ(after.classes[i].refills, before.classes[i].refills) << i;
  }
  sm_malloc_trim(0);  // the thread's heap hands on what it has
  EXPECT_EQ(statistics().classes[kClass].refills, after.classes[kClass].refills);
}

TEST(Counters, RemoteFreesAreThoseOfOthersBlocks) {
  constexpr size_t kCount = 1600;
  FixedText<64> problem;
  ASSERT_TRUE(options::set(options::Id::sample, "0", 1, problem));  // a sampled block is its thread's in no way
  invalidate_sample_distances();
  std::vector<void*> blocks = allocate(kCount);
  uint64_t before = statistics().remote_frees;
  for (size_t i = 0; i < kCount / 2; i++) sm_free(blocks[i]);
  EXPECT_EQ(statistics().remote_frees, before) << "the owner's own";
  // What a thread has gathered is sent at the latest when its heap is given up.
  void* own = nullptr;  // lent, so that its free would count too
  for (size_t part = 0; part < 2; part++) {
    std::thread([&] {
      if (part == 1) own = sm_malloc(5000);
      for (size_t i = kCount / 2 + part * kCount / 4; i < kCount / 2 + (part + 1) * kCount / 4; i++) sm_free(blocks[i]);
    }).join();
    sm_malloc_trim(0);
    EXPECT_EQ(statistics().remote_frees - before, (part + 1) * kCount / 4);
  }
  sm_free(own);
}

TEST(Counters, SpansAreCountedByState) {
  sm_malloc_trim(0);
  SpanStatistics before = statistics().spans;
  std::vector<void*> blocks = allocate(20000);
  SpanStatistics full = statistics().spans;
  EXPECT_GE(full.owned_bytes, 20000 * kBytes);
  EXPECT_GT(full.owned, before.owned);
  for (void* block : blocks) sm_free(block);
  SpanStatistics freed = statistics().spans;
  EXPECT_LT(freed.owned_bytes, full.owned_bytes / 4);
  EXPECT_LE(freed.empty, before.empty + 2);
  // Of a thread that is gone: nobody's.
  std::vector<void*> orphans;
  std::thread([&] { orphans = allocate(20000); }).join();
  sm_malloc_trim(0);
  SpanStatistics orphaned = statistics().spans;
  EXPECT_GE(orphaned.central_bytes - before.central_bytes, 20000 * kBytes * 9 / 10);
  for (void* block : orphans) sm_free(block);
  // A large block's span stays with its thread.
  size_t cached = statistics().spans.cached_large_bytes;
  void* large = sm_malloc(200000);
  sm_free(large);
  EXPECT_GE(statistics().spans.cached_large_bytes, cached + (cached == 0 ? 200000 : 0));
}

}  // namespace
}  // namespace seemalloc::heap

// How much a heap with few blocks keeps.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cstddef>
#include <set>
#include <thread>
#include <vector>

#include "core/api/malloc/test_api.h"
#include "core/base/units.h"
#include "core/heap/maintenance/purge_all.h"
#include "core/heap/reports/statistics.h"
#include "core/heap/slow_paths/owner_paths.h"
#include "core/heap/slow_paths/remote.h"
#include "core/heap/spans/central.h"
#include "core/heap/thread/thread_cache.h"
#include "core/heap/thread/thread_heap.h"

namespace seemalloc::heap {
namespace {

// Runs f in a new thread with an empty heap.
template <typename F>
void in_new_thread(F f) {
  collect(*thread_cache.heap, true);
  purge_all();  // empties abandoned heaps
  std::thread(f).join();
}

TEST(SmallHeap, FewSharedBlocksAreKept) {
  sm_free(sm_malloc(1));
  in_new_thread([] {
    std::vector<void*> all;
    for (size_t bytes = 16; bytes <= 1024; bytes += 16) all.push_back(sm_malloc(bytes));
    for (void* p : all) sm_free(p);
    EXPECT_GT(thread_cache.heap->gathered_bytes, 4 * KiB) << "they were of shared spans";
    EXPECT_LE(thread_cache.heap->gathered_bytes, kMaxSharedBlockBytes);
  });
}

// The number of different blocks of `bytes` returned while one at a time is allocated and freed,
// over and over.
size_t blocks_in_turns(size_t bytes) {
  std::set<void*> seen;
  in_new_thread([&] {
    for (int i = 0; i < 20'000; i++) sm_free(sm_malloc(bytes));
    std::vector<void*> turns;
    turns.reserve(1'000);
    for (int i = 0; i < 1'000; i++) {
      turns.push_back(sm_malloc(bytes));
      sm_free(turns.back());
    }
    seen.insert(turns.begin(), turns.end());
  });
  return seen.size();
}

TEST(SmallHeap, ListsOfOneBlockAtATimeBecomeLongEnoughButNoLonger) {
  for (size_t bytes : {16, 64, 128, 256}) {
    size_t blocks = blocks_in_turns(bytes);
    EXPECT_GE(blocks, 8 * KiB / bytes < 64 ? 8 * KiB / bytes : 64) << bytes << " bytes";
    EXPECT_LE(blocks, 128) << bytes << " bytes: with the first cut of a span, 2 KiB";
  }
  for (size_t bytes : {512, 1024, 4096})
    EXPECT_LE(blocks_in_turns(bytes), 2 * KiB / bytes + 12)
        << bytes << " bytes: the first shared ones, and one cut";
}

#if !defined(__SANITIZE_THREAD__)  // TSan's shadow memory has page faults of its own
long minor_faults() {
  struct rusage usage {};
  EXPECT_EQ(getrusage(RUSAGE_THREAD, &usage), 0);
  return usage.ru_minflt;
}

TEST(SmallHeap, PublishingFewBlocksOfEachClassTouchesFewPages) {
  std::vector<Block*> blocks;
  for (const SizeClass& c : kClasses) blocks.push_back(static_cast<Block*>(sm_malloc(c.bytes)));
  long before = minor_faults();
  for (unsigned c = 0; c < kClassCount; c++) ASSERT_TRUE(central_put_batch(c, &blocks[c], 1));
  EXPECT_LE(minor_faults() - before, 4) << "57 classes, 8 KiB of lists";
  for (unsigned c = 0; c < kClassCount; c++) {
    Block* taken[kMaxGatheredBlocks];
    for (uint32_t count = central_take_batch(c, taken), i = 0; i < count; i++) sm_free(taken[i]);
  }
}
#endif

}  // namespace
}  // namespace seemalloc::heap

// Refills, remote frees and the states of spans, as statistics() counts them.
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>
#include <vector>

#include "core/api/malloc/test_api.h"
#include "core/base/options.h"
#include "core/heap/reports/statistics.h"
#include "core/heap/slow_paths/owner_paths.h"
#include "core/heap/thread/sample_distance.h"
#include "core/heap/thread/thread_cache.h"
#include "core/heap/thread/thread_heap.h"
#include "core/os/kernel/memory.h"

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
  // A list has at least one block, and at most those of a span.
  EXPECT_GE(refills, 20000 / (kMaxSpanPages * kPageBytes / kBytes));
  EXPECT_LE(refills, 20000u);
  for (unsigned i = 0; i < kClassCount; i++) {
    if (i != kClass) EXPECT_EQ(after.classes[i].refills, before.classes[i].refills) << i;
  }
  sm_malloc_trim(0);  // empties the heap of the ended thread
  EXPECT_EQ(statistics().classes[kClass].refills, after.classes[kClass].refills);
}

// Covers every source of the next list, over several turns of the countdown that leads to a refill.
// All blocks are one thread's; some stay live.
TEST(Counters, EachEndOfAListIsCountedOnce) {
  FixedText<64> problem;
  ASSERT_TRUE(options::set(options::Id::sample, "0", 1, problem));
  invalidate_sample_distances();
  for (size_t bytes : {size_t{208}, size_t{8192}}) {
    unsigned size_class = class_of(bytes);
    std::thread([&] {
      uint64_t before = statistics().classes[size_class].refills, ends = 0;
      std::vector<void*> held(64);
      for (size_t i = 0; ends < 1500; i++) {
        void*& block = held[i * i % held.size()];
        sm_free(block);
        ends += thread_cache.heads[size_class] == nullptr ? 1 : 0;
        block = sm_malloc(bytes);
        if (ends % 100 == 0)
          ASSERT_EQ(statistics().classes[size_class].refills - before, ends) << bytes;
      }
      for (void* block : held) sm_free(block);
      EXPECT_EQ(statistics().classes[size_class].refills - before, ends) << bytes;
    }).join();
  }
}

#ifndef __SANITIZE_THREAD__  // TSan does not allow threads in a child
// Counts from before a fork belong to the parent: a sum over processes would otherwise count them
// twice.
TEST(Counters, AForkedChildCountsItsOwn) {
  std::thread([] {
    for (void* block : allocate(5000)) sm_free(block);
  }).join();
  std::vector<void*> blocks = allocate(1600);
  std::thread([&] {
    for (void* block : blocks) sm_free(block);
  }).join();
  Statistics parents = statistics();
  ASSERT_GT(parents.classes[kClass].refills, 0u);
  ASSERT_GT(parents.remote_frees, 0u);
  ASSERT_GT(os::counters().map_calls, 0u);
  pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    Statistics own = statistics();
    bool none = own.classes[kClass].refills == 0 && own.remote_frees == 0 &&
                own.realloc_copies == 0 && os::counters().map_calls == 0;
    std::vector<void*> some = allocate(5000);
    own = statistics();
    _exit(none && own.classes[kClass].refills > 0 && own.classes[kClass].refills < 5000 &&
                  own.live_bytes >= 5000 * kBytes
              ? 0
              : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_GE(statistics().remote_frees, parents.remote_frees);
}
#endif

// As if memory for a sample had been refused: a list is handed out that must not contain a sample.
TEST(Counters, UnsampledRefillAdvancesSamplePoint) {
  std::thread([] {
    sm_free(sm_malloc(100));
    ThreadHeap& heap = *thread_cache.heap;
    redraw_if_stale(heap);
    uint64_t allocated = allocated_by_this_thread(), left = heap.sample_at - heap.allocated_bytes;
    std::vector<void*> blocks;
    for (unsigned i = 0; heap.allocated_bytes < 8 * MiB; i++) {  // samples are 512 KiB apart
      unsigned c = i % kClassCount;
      while (thread_cache.heads[c] != nullptr) {
        blocks.push_back(sm_malloc(kClasses[c].bytes));
        allocated += kClasses[c].bytes;
      }
      Block* block = nullptr;
      ASSERT_EQ(refill(heap, c, &block, false), Refill::kBlock);
      blocks.push_back(block);
      allocated += kClasses[c].bytes;
      EXPECT_EQ(allocated_by_this_thread(), allocated) << kClasses[c].bytes;
      EXPECT_EQ(heap.sample_at - heap.allocated_bytes, left) << kClasses[c].bytes;
    }
    for (void* block : blocks) sm_free(block);
  }).join();
}

TEST(Counters, RemoteFreesExcludeOwnBlocks) {
  constexpr size_t kCount = 1600;
  FixedText<64> problem;
  // A sampled block has no owner.
  ASSERT_TRUE(options::set(options::Id::sample, "0", 1, problem));
  invalidate_sample_distances();
  std::vector<void*> blocks = allocate(kCount);
  uint64_t before = statistics().remote_frees;
  for (size_t i = 0; i < kCount / 2; i++) sm_free(blocks[i]);
  EXPECT_EQ(statistics().remote_frees, before) << "the owner's own";
  // Blocks that a thread has gathered are published when its heap is emptied, at the latest.
  void* own = nullptr;  // a shared block, so its free would count too
  for (size_t part = 0; part < 2; part++) {
    std::thread([&] {
      if (part == 1) own = sm_malloc(5000);
      for (size_t i = kCount / 2 + part * kCount / 4; i < kCount / 2 + (part + 1) * kCount / 4; i++)
        sm_free(blocks[i]);
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
  // The spans of a thread that has ended are unowned.
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

// Small and large blocks of threads that have ended; other threads have taken their heaps.
TEST(Counters, AllocatedBytesSurviveTheirThread) {
  Statistics first = statistics();
  uint64_t before = first.allocated_bytes;
  constexpr size_t kThreads = 20, kCount = 5000;
  constexpr size_t kLarge = 320 * KiB;  // whole pages
  for (size_t i = 0; i < kThreads; i++) {
    std::thread([] {
      for (void* block : allocate(kCount)) sm_free(block);
      sm_free(sm_malloc(kLarge));
    }).join();
    EXPECT_GE(statistics().allocated_bytes, before) << "it never falls";
    before = statistics().allocated_bytes;
  }
  uint64_t wanted = kThreads * (kCount * kClasses[kClass].bytes + kLarge);
  Statistics last = statistics();
  EXPECT_GT(last.unused_list_bytes, first.unused_list_bytes)
      << "lists that the threads did not use up";
  EXPECT_EQ(last.allocated_bytes - last.unused_list_bytes -
                (first.allocated_bytes - first.unused_list_bytes),
            wanted);
}

// Small, large and huge blocks that grow and shrink, in place or by moving, and that other threads
// free.
TEST(Counters, FreedBytesAreExact) {
  uint64_t before = freed_bytes(statistics()), wanted = 0;
  auto expect = [&](const char* what) {
    EXPECT_EQ(freed_bytes(statistics()) - before, wanted) << what;
  };
  std::vector<void*> blocks = allocate(3000);
  expect("nothing yet");
  for (size_t i = 0; i < 1000; i++) sm_free(blocks[i]);
  std::thread([&] {
    for (size_t i = 1000; i < 3000; i++) sm_free(blocks[i]);
  }).join();
  wanted += 3000 * kClasses[kClass].bytes;
  expect("small ones");
  for (size_t bytes : {size_t{64 * KiB}, size_t{320 * KiB}, size_t{4 * MiB}}) {
    void* block = sm_malloc(bytes);
    for (size_t factor : {3, 2, 4, 1}) {
      size_t old = sm_malloc_usable_size(block);
      uint64_t copies = statistics().realloc_copies;
      void* moved = sm_realloc(block, bytes * factor);
      if (statistics().realloc_copies != copies) wanted += old;
      block = moved;
      expect("resized");
    }
    wanted += sm_malloc_usable_size(block);
    sm_free(block);
    expect("a large one");
  }
}

// One block or a few of each of many sizes, in threads that end; their heaps are kept abandoned,
// have shared blocks, and have samples due.
TEST(Counters, UnusedListBlocksAreNotAllocated) {
  FixedText<64> problem;
  ASSERT_TRUE(options::set(options::Id::sample, "20000", 5, problem));
  invalidate_sample_distances();
  Statistics first = statistics();
  uint64_t wanted = 0;
  for (unsigned i = 0; i < 300; i++) {
    if (i % 100 == 99) sm_malloc_trim(0);
    std::thread([&] {
      void* held[8];
      for (unsigned j = 0; j < 8; j++) {
        unsigned c = (i * 7 + j * 5) % kClassCount;
        held[j] = sm_malloc(kClasses[c].bytes);
        wanted += kClasses[c].bytes;
      }
      for (void* block : held) sm_free(block);
    }).join();
    Statistics now = statistics();
    EXPECT_EQ(now.allocated_bytes - now.unused_list_bytes -
                  (first.allocated_bytes - first.unused_list_bytes),
              wanted)
        << i;
    if (HasFailure()) return;
  }
}

uint64_t taken() {
  Statistics s = statistics();
  return s.allocated_bytes - s.unused_list_bytes;
}

// A destructor of the program that runs after ours.
void allocate_at_the_end(void* key) {
  if (!thread_cache.finished) {  // once more, later
    pthread_setspecific(*static_cast<pthread_key_t*>(key), key);
    return;
  }
  for (size_t bytes : {kBytes, 10 * kPageBytes, 4 * MiB}) sm_free(sm_malloc(bytes));
}

TEST(Counters, AllocationsInLastDestructorsAreCounted) {
  pthread_key_t key;
  ASSERT_EQ(pthread_key_create(&key, allocate_at_the_end), 0);
  uint64_t before = taken();
  std::thread([&] {
    pthread_setspecific(key, &key);
    sm_free(sm_malloc(kBytes));
  }).join();
  EXPECT_EQ(taken() - before, 2 * kBytes + 10 * kPageBytes + 4 * MiB);
  pthread_key_delete(key);
}

// Every way to allocate and to free a block, while the other thread lives.
TEST(Counters, AllocatedBytesMatchProgram) {
  uint64_t before = taken(), wanted = 0;
  std::atomic<int> stage{0};
  void* passed[100];
  std::thread other([&] {
    for (void*& p : passed) wanted += sm_malloc_usable_size(p = sm_malloc(3000));
    void* few[20];  // of lists of shared blocks
    for (size_t i = 0; i < 20; i++)
      wanted += sm_malloc_usable_size(few[i] = sm_malloc(16 * (i + 1)));
    stage = 1;
    while (stage != 2) std::this_thread::yield();
    for (void* p : few) sm_free(p);
  });
  while (stage != 1) std::this_thread::yield();
  auto got = [&](void* p) {
    wanted += sm_malloc_usable_size(p);
    return p;
  };
  for (int round = 0; round < 20; round++) {
    for (size_t bytes : {size_t{1}, size_t{500}, 20 * KiB, 100 * KiB, 3 * MiB}) {
      void* all[] = {got(sm_malloc(bytes)), got(sm_calloc(1, bytes)), got(sm_memalign(4096, bytes)),
                     got(sm_memalign(64, bytes))};
      for (void*& p : all) {
        uint64_t copies = statistics().realloc_copies;
        p = sm_realloc(p, 4 * bytes + 16 * KiB);
        if (statistics().realloc_copies != copies) got(p);  // else it has grown in place
      }
      for (void* p : all) sm_free(p);
    }
    for (int i = 0; i < 5; i++) sm_free(passed[round * 5 + i]);
    EXPECT_EQ(taken() - before, wanted) << round;
    if (HasFailure()) break;
  }
#ifndef __SANITIZE_THREAD__  // the child's helper thread may start
  pid_t child = fork();
  if (child == 0) {
    got(sm_malloc(500));
    _exit(taken() - before == wanted ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0) << "in a child of fork";
#endif
  stage = 2;
  other.join();
  EXPECT_EQ(taken() - before, wanted);
}

TEST(Counters, ASampleThatWasDueBeforeTheIntervalChangedIsNotAllocated) {
  FixedText<64> problem;
  ASSERT_TRUE(options::set(options::Id::sample, "20000", 5, problem));
  invalidate_sample_distances();
  uint64_t before = taken(), wanted = 0;
  std::vector<void*> blocks;
  auto allocate_one = [&] {
    blocks.push_back(sm_malloc(kBytes));
    wanted += kBytes;
  };
  do allocate_one();
  while (thread_cache.heap->body->classes[kClass].sample_due == 0);
  invalidate_sample_distances();
  for (int i = 0; i < 1000; i++) allocate_one();
  EXPECT_EQ(taken() - before, wanted);
  for (void* block : blocks) sm_free(block);
}

TEST(Counters, CopiesOfReallocAreCounted) {
  Statistics before = statistics();
  void* block = sm_malloc(1000);
  block = sm_realloc(block, 1000);  // fits
  EXPECT_EQ(statistics().realloc_copies, before.realloc_copies);
  block = sm_realloc(block, 5000);
  block = sm_realloc(block, 20000);
  Statistics after = statistics();
  EXPECT_EQ(after.realloc_copies - before.realloc_copies, 2u);
  // The requested sizes at the time of the copies; all usable bytes are copied.
  uint64_t least = 1000 + 5000;
  EXPECT_GE(after.realloc_copied_bytes - before.realloc_copied_bytes, least);
  EXPECT_LE(after.realloc_copied_bytes - before.realloc_copied_bytes, least * 5 / 4);
  sm_free(block);
}

ThreadStatistics statistics_of(int thread_id) {
  struct Wanted {
    int thread_id;
    ThreadStatistics found;
  } wanted{thread_id, {}};
  for_each_thread(
      [](void* context, const ThreadStatistics& thread) {
        auto* w = static_cast<Wanted*>(context);
        if (thread.thread_id == w->thread_id) w->found = thread;
      },
      &wanted);
  return wanted.found;
}

constexpr size_t kMinWithRoom = 8 * KiB;

// Each copy reserves a quarter more. So from 8 KiB to 32 KiB there are at most log 4 / log 1.25
// copies, and the first.
TEST(Counters, SmallGrowthStepsRarelyCopy) {
  uint64_t before = statistics().realloc_copies;
  void* block = sm_malloc(kMinWithRoom);
  for (size_t bytes = kMinWithRoom; bytes <= kMaxSmallBytes; bytes += 16) {
    block = sm_realloc(block, bytes);
    ASSERT_NE(block, nullptr);
    // The reserve is a quarter, and a class is up to a quarter more.
    EXPECT_LE(sm_malloc_usable_size(block), bytes / 16 * 25) << "too much room at " << bytes;
  }
  sm_free(block);
  EXPECT_LE(statistics().realloc_copies - before, 7u);
}

// Small blocks get no reserve, because there may be many of them: a request for a sixteenth more
// gets a sixteenth more.
TEST(Counters, SmallBlocksGetNoHeadroom) {
  for (size_t bytes = 32; bytes < kMinWithRoom; bytes = kClasses[class_of(bytes + 1)].bytes) {
    void* block = sm_realloc(sm_malloc(bytes), bytes + 1);
    EXPECT_EQ(sm_malloc_usable_size(block), kClasses[class_of(bytes + 1)].bytes);
    sm_free(block);
  }
}

TEST(Counters, ThreadStatisticsAreListed) {
  FixedText<64> problem;
  ASSERT_TRUE(options::set(options::Id::sample, "0", 1, problem));
  invalidate_sample_distances();
  std::vector<void*> mine = allocate(1600);
  int hoarder = 0;
  std::thread([&] {
    hoarder = gettid();
    std::vector<void*> blocks = allocate(1000);
    ThreadStatistics full = statistics_of(hoarder);
    EXPECT_GE(full.live_bytes, 1000 * kBytes - full.list_bytes);
    EXPECT_GT(full.refills, 0u);
    for (size_t i = 0; i < blocks.size(); i += 2) sm_free(blocks[i]);
    void* large = sm_malloc(200000);
    sm_free(large);
    ThreadStatistics half = statistics_of(hoarder);
    EXPECT_GE(half.free_bytes, 400 * kBytes);
    EXPECT_GE(half.large_bytes, 200000u);
    EXPECT_EQ(half.remote_frees, full.remote_frees);
    for (void* block : mine) sm_free(block);
    ThreadStatistics freed = statistics_of(hoarder);
    EXPECT_GE(freed.remote_frees - half.remote_frees, mine.size() - kMaxGatheredBlocks);
    EXPECT_EQ(freed.refills, half.refills) << "it has only freed";
    for (size_t i = 1; i < blocks.size(); i += 2) sm_free(blocks[i]);
  }).join();
  EXPECT_EQ(statistics_of(hoarder).thread_id, 0) << "it has ended";
  EXPECT_EQ(statistics_of(gettid()).thread_id, gettid());
}

TEST(Counters, AForkedChildsThreadHasItsNewId) {
  sm_free(sm_malloc(100));
  pid_t child = fork();
  if (child == 0) _exit(statistics_of(gettid()).thread_id == gettid() ? 0 : 1);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace seemalloc::heap

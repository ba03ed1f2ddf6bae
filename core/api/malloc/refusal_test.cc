// Each system call of the core is refused, always or occasionally, while a program allocates:
// blocks keep their contents, failures are null with ENOMEM, and freed memory can be allocated
// again afterwards.
#include <errno.h>
#include <gtest/gtest.h>
#include <seemalloc/seemalloc.h>
#include <string.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/api/malloc/test_api.h"
#include "core/api/sampling/sampling.h"
#include "core/base/repetitions_for_test.h"
#include "core/base/units.h"
#include "core/heap/reports/statistics.h"
#include "core/os/kernel/fault.h"
#include "core/pages/huge/huge.h"

namespace seemalloc {
namespace {

struct Call {
  const char* name;
  long number;
  long error;
};
const Call kCalls[] = {
    {"mmap", SYS_mmap, ENOMEM},
    {"munmap", SYS_munmap, ENOMEM},
    {"madvise", SYS_madvise, EAGAIN},
    {"mremap", SYS_mremap, ENOMEM},
    {"mincore", SYS_mincore, EPERM},
    {"getrandom", SYS_getrandom, ENOSYS},
    {"openat", SYS_openat, EPERM},
    {"process_vm_readv", SYS_process_vm_readv, EPERM},
    {"sched_getaffinity", SYS_sched_getaffinity, EPERM},
    {"futex", SYS_futex, EINTR},
    {"getpid", SYS_getpid, EPERM},
    {"membarrier", SYS_membarrier, ENOSYS},
};

struct Case {
  Call call;
  unsigned every;
};
std::vector<Case> cases() {
  std::vector<Case> all;
  for (const Call& call : kCalls) {
    for (unsigned every : {1u, 3u}) all.push_back({call, every});
  }
  return all;
}

class Refusal : public testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(Calls, Refusal, testing::ValuesIn(cases()), [](const auto& info) {
  return std::string(info.param.call.name) + (info.param.every == 1 ? "Always" : "Sometimes");
});

// A byte here and there, on every page: filling all of it takes the thread sanitizer a minute and a
// half.
template <typename Do>
void at_marks(size_t bytes, Do&& at) {
  for (size_t i = 0; i < bytes; i += 512) at(i);
  at(bytes - 1);
}
void mark(unsigned char* p, size_t bytes, unsigned char value) {
  at_marks(bytes, [&](size_t i) { p[i] = value; });
}

// Marks the blocks it gets; counts the failures.
unsigned churn() {
  constexpr size_t kSizes[] = {8, 40, 500, 3000, 20000, 100000, 700000, 3 * MiB, 9 * MiB};
  struct Owned {
    unsigned char* p;
    size_t bytes;
  };
  std::vector<Owned> blocks;
  unsigned refused = 0;
  for (unsigned i = 0; i < repetitions(300u); i++) {
    size_t bytes = kSizes[i * 7 % std::size(kSizes)];
    errno = 0;
    auto* p = static_cast<unsigned char*>(i % 5 == 0 ? sm_calloc(1, bytes) : sm_malloc(bytes));
    if (p == nullptr) {
      EXPECT_EQ(errno, ENOMEM);
      refused++;
      continue;
    }
    EXPECT_EQ(errno, 0);
    mark(p, bytes, static_cast<unsigned char>(bytes));
    blocks.push_back({p, bytes});
    if (i % 3 == 0) {
      Owned& b = blocks[i * 13 % blocks.size()];
      if (auto* moved = static_cast<unsigned char*>(sm_realloc(b.p, b.bytes * 2))) {
        b.p = moved;
        mark(b.p + b.bytes, b.bytes, static_cast<unsigned char>(b.bytes));
      }
    }
    if (blocks.size() > 40) {
      Owned b = blocks[i % 40];
      blocks[i % 40] = blocks.back();
      blocks.pop_back();
      at_marks(b.bytes, [&](size_t i) {
        ASSERT_EQ(b.p[i], static_cast<unsigned char>(b.bytes)) << i << " of " << b.bytes;
      });
      sm_free(b.p);
    }
  }
  for (const Owned& b : blocks) sm_free(b.p);
  return refused;
}

void count_block(void* context, void*, size_t) { ++*static_cast<size_t*>(context); }

TEST_P(Refusal, LosesNothing) {
  ASSERT_EQ(seemalloc_profile_start(16 * KiB), 0);
  size_t before = 0, after = 0;
  ASSERT_EQ(seemalloc_for_each_block(count_block, &before), 0);
  {
    os::FailCalls refuse(GetParam().call.number, GetParam().call.error, GetParam().every);
    churn();
    std::thread(churn).join();
    seemalloc_statistics_t statistics;
    EXPECT_EQ(seemalloc_statistics(&statistics, sizeof(statistics)), 0);
    seemalloc_purge();
  }
  ASSERT_EQ(seemalloc_for_each_block(count_block, &after), 0);
  EXPECT_EQ(after, before);
  EXPECT_EQ(churn(), 0u) << "operations still fail after the refusals";
  ASSERT_EQ(seemalloc_profile_stop(), 0);
}

uint64_t taken_bytes() {
  heap::Statistics s = heap::statistics();
  return s.allocated_bytes - s.unused_list_bytes;
}

// A sampled block has a span of its own kind. If that is refused, the block comes from an ordinary
// span, and the sample is lost.
TEST(RefusalOfSamples, IsCounted) {
  constexpr size_t kBlocks = 200000;
  std::thread([] {
    std::vector<void*> blocks(kBlocks);
    for (void*& block : blocks) block = sm_malloc(256);
    // Free blocks, but no free pages.
    for (size_t i = 0; i < blocks.size(); i += 2) sm_free(blocks[i]);
    ASSERT_EQ(seemalloc_profile_start(1 * KiB), 0);
    uint64_t before = sampling_report().dropped, taken = taken_bytes();
    size_t had = 0;
    {
      os::FailCalls refuse(SYS_mmap, ENOMEM);
      for (; had < 1'000'000; had++) {
        void* block = sm_malloc(256);
        if (block == nullptr) break;
        blocks.push_back(block);
      }
    }
    EXPECT_GE(had, kBlocks / 2) << "the free blocks";
    EXPECT_GT(sampling_report().dropped, before);
    EXPECT_EQ(taken_bytes() - taken, had * 256) << "none counts twice";
    for (size_t i = 0; i < blocks.size(); i++) {
      if (i >= kBlocks || i % 2 == 1) sm_free(blocks[i]);
    }
  }).join();
  ASSERT_EQ(seemalloc_profile_stop(), 0);
}

TEST(RefusalOfDumps, FailsWithTheCallsErrorAndLeavesNoFile) {
  ASSERT_EQ(seemalloc_profile_start(1), 0);
  std::thread([] { sm_free(sm_malloc(100)); }).join();
  std::string path = testing::TempDir() + "/refused.pb";
  for (long number : {SYS_openat, SYS_write, SYS_renameat2}) {
    os::FailCalls refuse(number, ENOSPC);
    errno = 0;
    // openat is called for the maps first, which a profile can do without; then for the file.
    EXPECT_EQ(seemalloc_profile_dump(path.c_str()), -1);
    EXPECT_EQ(errno, ENOSPC);
    EXPECT_NE(access(path.c_str(), F_OK), 0);
  }
  EXPECT_EQ(seemalloc_profile_dump(path.c_str()), 0);
  EXPECT_EQ(access(path.c_str(), F_OK), 0);
  unlink(path.c_str());
  ASSERT_EQ(seemalloc_profile_stop(), 0);
}

// The process has all the mappings that the kernel allows: existing ones grow.
TEST(RefusalOfMappings, MemoryAndRecordsGrowWithoutANewOne) {
  sm_free(sm_malloc(1));
  std::vector<void*> blocks;
  blocks.reserve(700'000);
  unsigned refusals = 0;
  {
    os::FailNewMappings refuse;
    for (size_t i = 0; i < 600'000; i++) blocks.push_back(sm_malloc(16 + i % 500));
    for (size_t i = 0; i < 2'000; i++) blocks.push_back(sm_malloc(60'000 + i * 100));
    std::thread([&] {
      for (size_t i = 0; i < 10'000; i++) blocks.push_back(sm_malloc(100 + i));
    }).join();
    refusals = refuse.refusals();
  }
  EXPECT_GT(refusals, 0u);
  size_t nulls = 0;
  for (void* block : blocks) {
    nulls += block == nullptr;
    sm_free(block);
  }
  EXPECT_EQ(nulls, 0u);
}

// More threads at once than fit into the first chunk of their records.
TEST(RefusalOfMappings, ThreadsGetTheirHeaps) {
  constexpr size_t kThreads = 80;
  size_t before = heap::statistics().live_heaps;
  std::atomic<size_t> ready{0};
  std::atomic<bool> over{false};
  std::vector<std::thread> threads;
  {
    os::FailNewMappings refuse;
    for (size_t i = 0; i < kThreads; i++) {
      threads.emplace_back([&] {
        sm_free(sm_malloc(100));
        ready++;
        ready.notify_all();
        over.wait(false);
      });
    }
    for (size_t now; (now = ready) != kThreads;) ready.wait(now);
    EXPECT_GT(refuse.refusals(), 0u);
  }
  EXPECT_EQ(heap::statistics().live_heaps - before, kThreads);
  over = true;
  over.notify_all();
  for (std::thread& thread : threads) thread.join();
}

uint64_t calls_for_memory() {
  uint64_t calls = 0;
  for (unsigned i = 0; i < os::kCalls; i++) calls += os::call_count(static_cast<os::Call>(i)).calls;
  return calls;
}

// Frees memory of each kind that may be returned after a refusal.
size_t fill_caches() {
  for (size_t bytes : {100 * KiB, 600 * KiB, 3 * MiB, 20 * MiB}) {
    void* p = sm_malloc(bytes);
    memset(p, 1, bytes);
    sm_free(p);
  }
  return pages::huge_statistics().cached_bytes;
}

TEST(RefusalOfSizes, ImpossibleOnesCostNothing) {
  void* small = sm_malloc(10);
  void* huge = sm_malloc(2 * MiB);
  size_t cached = fill_caches();
  ASSERT_GT(cached, 0u);
  for (size_t bytes : {SIZE_MAX, SIZE_MAX - 4095, SIZE_MAX / 2 + 1, SIZE_MAX / 2,
                       SIZE_MAX / 2 - MiB, (size_t{1} << 62) + 1, kAddressSpaceBytes + 1}) {
    SCOPED_TRACE(bytes);
    uint64_t before = calls_for_memory();
    void* out = small;
    auto refused = [](void* p) { return p == nullptr && std::exchange(errno, 0) == ENOMEM; };
    errno = 0;
    EXPECT_TRUE(refused(sm_malloc(bytes)));
    EXPECT_TRUE(refused(sm_calloc(1, bytes)));
    EXPECT_TRUE(refused(sm_calloc(bytes / 2 + 1, 2)));
    EXPECT_TRUE(refused(sm_calloc(bytes, bytes)));
    EXPECT_TRUE(refused(sm_realloc(nullptr, bytes)));
    EXPECT_TRUE(refused(sm_realloc(small, bytes)));
    EXPECT_TRUE(refused(sm_realloc(huge, bytes)));
    EXPECT_TRUE(refused(sm_reallocarray(huge, bytes, 3)));
    EXPECT_TRUE(refused(sm_memalign(64, bytes)));
    EXPECT_TRUE(refused(sm_memalign(size_t{1} << 40, bytes)));
    EXPECT_TRUE(refused(sm_aligned_alloc(4096, bytes)));
    EXPECT_TRUE(refused(sm_valloc(bytes)));
    EXPECT_TRUE(refused(sm_pvalloc(bytes)));
    EXPECT_EQ(sm_posix_memalign(&out, 64, bytes), ENOMEM);
    EXPECT_EQ(calls_for_memory(), before);
  }
  EXPECT_EQ(pages::huge_statistics().cached_bytes, cached);
  sm_free(small);
  sm_free(huge);
}

// More than the machine grants, even after all memory was returned: the caches stay.
TEST(RefusalOfSizes, HopelessOnesLeaveTheCaches) {
  size_t cached = fill_caches();
  void* p = sm_malloc(kAddressSpaceBytes - 1024 * GiB);
  if (p != nullptr) {
    sm_free(p);
    GTEST_SKIP() << "this machine grants addresses without memory";
  }
  uint64_t purged = os::call_count(os::Call::kDontNeed).calls;
  for (int i = 0; i < 10; i++) {
    uint64_t before = calls_for_memory();
    EXPECT_EQ(sm_malloc(kAddressSpaceBytes - 1024 * GiB), nullptr);
    EXPECT_LE(calls_for_memory() - before, 8u);
  }
  EXPECT_EQ(os::call_count(os::Call::kDontNeed).calls, purged);
  EXPECT_EQ(pages::huge_statistics().cached_bytes, cached);
}

}  // namespace
}  // namespace seemalloc

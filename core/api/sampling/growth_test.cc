// Growth by caller: every request for memory to the OS is recorded once, with the stack of its
// request.
#include <gtest/gtest.h>
#include <seemalloc/seemalloc.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <random>
#include <string>
#include <thread>
#include <vector>

#include "core/api/dumps/profile_kinds.h"
#include "core/api/malloc/test_api.h"
#include "core/base/seed_for_test.h"
#include "core/base/units.h"
#include "core/heap/maintenance/purge_all.h"
#include "core/os/kernel/fault.h"
#include "core/os/runtime/arena.h"
#include "core/pages/span/region_count.h"
#include "core/profile/heap/growth_profile.h"
#include "core/profile/pprof/decoder_for_test.h"

namespace seemalloc {
namespace {

std::string take_growth_profile() {
  ProfileBytes taken{};
  EXPECT_TRUE(find_profile_kind("expansion")->collect(&taken));
  std::string bytes(taken.data, taken.bytes);
  release_profile(taken);
  return bytes;
}

std::vector<profile::DecodedRow> growth_rows() {
  std::string bytes = take_growth_profile();
  EXPECT_EQ(profile::decode(bytes).types,
            (std::vector<std::string>{"growth_objects/count", "growth_space/bytes"}));
  return profile::rows_of(bytes);
}

// Functions are identified by address: none of them is longer than this.
constexpr uint64_t kMax = 256;
#define KNOWN __attribute__((noinline, aligned(256)))

KNOWN void* small_blocks(size_t count) {
  void* list = nullptr;
  for (size_t i = 0; i < count; i++) {
    void** block = static_cast<void**>(sm_malloc(1000));
    *block = list;
    list = block;
  }
  asm volatile("");
  return list;
}
KNOWN void* one_block(size_t bytes) {
  void* p = sm_malloc(bytes);
  asm volatile("");
  return p;
}
KNOWN void* grow_block(void* p, size_t bytes) {
  void* moved = sm_realloc(p, bytes);
  asm volatile("");
  return moved;
}
void free_list(void* list) {
  while (list != nullptr) {
    void* next = *static_cast<void**>(list);
    sm_free(list);
    list = next;
  }
}

// Bytes in rows with a frame in the function.
template <typename Function>
int64_t charged_to(Function* function) {
  uint64_t start = reinterpret_cast<uint64_t>(function);
  int64_t bytes = 0;
  for (const profile::DecodedRow& row : growth_rows()) {
    bool in_it = false;
    for (uint64_t address : row.stack)
      in_it = in_it || (address >= start && address < start + kMax);
    if (in_it) bytes += row.values[1];
  }
  return bytes;
}

// Runs before all others: the first region is not charged to a caller.
TEST(Growth, FirstRegionIsNotCharged) {
  sm_free(sm_malloc(1));
  profile::GrowthTotals totals = profile::growth_totals();
  EXPECT_EQ(totals.count, 1u);
  EXPECT_EQ(totals.bytes, kRegionBytes);
  EXPECT_EQ(totals.count_without_stack, 1u);
  ASSERT_EQ(growth_rows().size(), 1u);
  EXPECT_TRUE(growth_rows()[0].stack.empty());
}

TEST(Growth, RegionsAreChargedToTheirRequesters) {
  uint64_t before = profile::growth_totals().bytes;
  size_t regions = pages::region_count();
  void* list = small_blocks(40000);
  size_t grown = (pages::region_count() - regions) * kRegionBytes;
  EXPECT_GT(grown, 15 * kRegionBytes);
  EXPECT_EQ(profile::growth_totals().bytes - before, grown);
  EXPECT_EQ(static_cast<size_t>(charged_to(small_blocks)), grown);
  // Reusing memory is not growth; returning memory subtracts nothing.
  free_list(list);
  free_list(small_blocks(30000));
  heap::purge_all();
  EXPECT_EQ(profile::growth_totals().bytes - before, grown);
}

TEST(Growth, ByHugeBlocksIsChargedToThem) {
  heap::purge_all();
  void* p = one_block(64 * MiB);
  EXPECT_EQ(charged_to(one_block), static_cast<int64_t>(64 * MiB));
  p = grow_block(p, 128 * MiB);
  // And possibly an eighth to grow into.
  EXPECT_NEAR(static_cast<double>(charged_to(grow_block)), 64.0 * MiB, 17.0 * MiB);
  int64_t charged = charged_to(grow_block);
  p = grow_block(p, 32 * MiB);
  EXPECT_EQ(charged_to(grow_block), charged);
  sm_free(p);
  // Reusing cached memory is not growth.
  uint64_t before = profile::growth_totals().bytes;
  p = one_block(16 * MiB);
  EXPECT_EQ(profile::growth_totals().bytes, before);
  sm_free(p);
  heap::purge_all();
}

TEST(Growth, WithMemoryRefused) {
  profile::GrowthTotals before = profile::growth_totals();
  {
    os::FailCalls refuse(SYS_mmap, ENOMEM);
    EXPECT_EQ(one_block(512 * MiB), nullptr);
    EXPECT_EQ(profile::growth_totals().bytes, before.bytes);
    ProfileBytes taken{};
    EXPECT_FALSE(find_profile_kind("expansion")->collect(&taken));
  }
  // Every second call is refused: in any case all memory obtained is accounted for.
  std::vector<void*> blocks;
  for (unsigned skip = 0; skip < 6; skip++) {
    os::FailCalls refuse(SYS_mmap, ENOMEM, 2, skip);
    uint64_t so_far = profile::growth_totals().bytes;
    void* p = one_block(300 * MiB);
    EXPECT_EQ(profile::growth_totals().bytes - so_far, p != nullptr ? 300 * MiB : 0);
    blocks.push_back(p);
  }
  for (void* p : blocks) sm_free(p);
  heap::purge_all();
}

// One stack for each depth.
__attribute__((noinline)) void* at_depth(unsigned depth, size_t bytes) {
  void* p = depth == 0 ? sm_malloc(bytes) : at_depth(depth - 1, bytes);
  asm volatile("");
  return p;
}

TEST(Growth, ThreadsAndForksAtOnce) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "the sanitizer allows no threads after a fork, and the child starts a helper";
#endif
  unsigned seed = seed_for_test();
  SCOPED_TRACE(seed);
  heap::purge_all();
  uint64_t before = profile::growth_totals().bytes;
  std::vector<std::thread> threads;
  constexpr unsigned kRounds = 60;
  for (unsigned t = 0; t < 3; t++) {
    threads.emplace_back([=] {
      std::mt19937 random(seed + t);
      for (unsigned i = 0; i < kRounds; i++) {
        sm_free(at_depth(random() % 50, (2 + random() % 64) * MiB));
        if (i % 20 == 0) growth_rows();
      }
    });
  }
  for (int i = 0; i < 10; i++) {
    pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      alarm(20);
      heap::purge_all();  // otherwise memory freed by other tests would serve part of it
      uint64_t in_child = profile::growth_totals().bytes;
      void* p = one_block(700 * MiB);
      uint64_t grown = profile::growth_totals().bytes - in_child;
      if (p == nullptr || grown != 700 * MiB) {
        fprintf(stderr, "in the child %p, grown by %zu\n", p, static_cast<size_t>(grown));
        _exit(1);
      }
      _exit(0);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  }
  for (std::thread& thread : threads) thread.join();
  int64_t sum = 0;
  for (const profile::DecodedRow& row : growth_rows()) sum += row.values[1];
  EXPECT_EQ(static_cast<uint64_t>(sum), profile::growth_totals().bytes);
  EXPECT_GT(profile::growth_totals().bytes, before);
  heap::purge_all();
}

TEST(Growth, MarksIncompleteStacks) {
  heap::purge_all();
  uint64_t before = profile::growth_totals().truncated_times;
  sm_free(at_depth(30, 500 * MiB));
  heap::purge_all();
  EXPECT_EQ(profile::growth_totals().truncated_times, before);
  ASSERT_EQ(seemalloc_option_set("stack_depth", "8"), 0);
  sm_free(at_depth(31, 501 * MiB));
  ASSERT_EQ(seemalloc_option_set("stack_depth", "64"), 0);
  heap::purge_all();
  EXPECT_EQ(profile::growth_totals().truncated_times, before + 1);
  std::string said = "; " + std::to_string(before + 1) +
                     " requests with a truncated stack, 0 requests with a broken unwind; without";
  std::vector<std::string> comments = profile::decode(take_growth_profile()).comments;
  ASSERT_EQ(comments.size(), 2u);
  EXPECT_NE(comments[1].find(said), std::string::npos) << comments[1];
}

// Last: there is no space for stacks afterwards.
__attribute__((noinline)) void record_from(const unsigned char* path, unsigned length);
__attribute__((noinline)) void turn_left(const unsigned char* path, unsigned length) {
  record_from(path, length);
  asm volatile("");
}
__attribute__((noinline)) void turn_right(const unsigned char* path, unsigned length) {
  record_from(path, length);
  asm volatile("nop");
}
void record_from(const unsigned char* path, unsigned length) {
  if (length == 0) {
    profile::record_growth(1, 1, 64);
  } else if (*path != 0) {
    turn_left(path + 1, length - 1);
  } else {
    turn_right(path + 1, length - 1);
  }
  asm volatile("");
}
TEST(Growth, FurtherStacksAreSummedUp) {
  {
    os::FailCalls refuse(SYS_mmap, ENOMEM);
    while (os::arena_allocate(64, 8) != nullptr) {
    }
    profile::GrowthTotals before = profile::growth_totals();
    const unsigned char path[] = {1, 0, 1};
    record_from(path, 3);
    profile::GrowthTotals totals = profile::growth_totals();
    EXPECT_EQ(totals.unrecorded_count, before.unrecorded_count + 1);
    EXPECT_EQ(totals.count_without_stack, before.count_without_stack + 1);
  }
  profile::GrowthTotals before = profile::growth_totals();
  for (unsigned i = 0; i < 2 * profile::kMaxGrowthStacks; i++) {
    unsigned char path[11];
    for (unsigned bit = 0; bit < 11; bit++) path[bit] = i >> bit & 1;
    record_from(path, 11);
  }
  profile::GrowthTotals totals = profile::growth_totals();
  EXPECT_EQ(totals.stacks, profile::kMaxGrowthStacks);
  EXPECT_EQ(totals.count - before.count, 2 * profile::kMaxGrowthStacks);
  EXPECT_GE(totals.count_without_stack - before.count_without_stack, profile::kMaxGrowthStacks);
  EXPECT_EQ(totals.unrecorded_count, before.unrecorded_count) << "there was memory";
}

}  // namespace
}  // namespace seemalloc

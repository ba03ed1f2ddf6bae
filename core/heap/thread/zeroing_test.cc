// Large callocs of used memory: always zero, and purged where hardly any page is resident.
#include "core/heap/thread/zeroing.h"
#include "core/heap/thread/thread_heap.h"

#include <errno.h>
#include <gtest/gtest.h>
#include <seemalloc/seemalloc.h>
#include <string.h>
#include <sys/syscall.h>

#include <random>
#include <thread>
#include <vector>

#include "core/api/helper/without_helper_for_test.h"
#include "core/api/malloc/test_api.h"
#include "core/api/sampling/without_samples_for_test.h"
#include "core/base/option_for_test.h"
#include "core/base/seed_for_test.h"
#include "core/heap/maintenance/purge_all.h"
#include "core/heap/thread/thread_cache.h"
#include "core/heap/thread/zeroing_pace.h"
#include "core/os/kernel/calls.h"
#include "core/os/kernel/fault.h"
#include "core/os/kernel/memory.h"

namespace seemalloc::heap {
namespace {

// ---- the pace ----

struct Seen {
  int checked = 0, purged = 0;
};

// Simulates this many blocks, one after the other, each with few of its pages resident, or filled.
template <typename F>
Seen zero(ZeroingPace& pace, int blocks, F has_few) {
  Seen seen;
  for (int i = 0; i < blocks; i++) {
    ZeroingPace::Next next = pace.next();
    bool looks = next == ZeroingPace::Next::kCheck;
    seen.checked += looks;
    seen.purged += looks ? pace.should_purge(has_few(i)) : next == ZeroingPace::Next::kPurge;
  }
  return seen;
}
constexpr auto few = [](int) { return true; };
constexpr auto filled = [](int) { return false; };

TEST(Zeroing, SparselyResidentBlocksArePurgedEachTime) {
  ZeroingPace pace{};
  Seen seen = zero(pace, 1000, few);
  EXPECT_EQ(seen.purged, 1000);
  EXPECT_LE(seen.checked, 260);
}

TEST(Zeroing, FilledBlocksAreRarelyPurged) {
  ZeroingPace pace{};
  EXPECT_LE(zero(pace, 1000, filled).purged, 1);
  Seen later = zero(pace, 100000, filled);
  EXPECT_LE(later.purged, 14);
  EXPECT_GE(later.purged, 8) << "a class that was filled once is tried again";
  EXPECT_LE(later.checked, 7500);
}

TEST(Zeroing, OfBlocksOfWhichHalfAreFilledMostAreWritten) {
  ZeroingPace pace{};
  std::mt19937 random(seed_for_test());
  EXPECT_LE(zero(pace, 100000, [&](int) { return random() % 2 == 0; }).purged, 40000);
  EXPECT_LE(zero(pace, 100000, [&](int) { return random() % 4 == 0; }).purged, 10000);
}

TEST(Zeroing, FilledBlockAmongMostlyEmptyOnesIsPurged) {
  ZeroingPace pace{};
  EXPECT_GE(zero(pace, 1000, [](int i) { return i % 16 != 15; }).purged, 990);
}

TEST(Zeroing, MemoryThatChangesIsFollowed) {
  ZeroingPace pace{};
  zero(pace, 1000, few);
  EXPECT_LE(zero(pace, 1000, filled).purged, 8);
  zero(pace, 100000, filled);
  EXPECT_GE(zero(pace, 1000, few).purged, 950);
}

// ---- blocks ----

constexpr size_t kBytes = 512 * KiB;

uint64_t calls() { return os::call_count(os::Call::kDontNeed, os::Reason::kZero).calls; }
bool is_zero(const char* p, size_t bytes) { return p[0] == 0 && memcmp(p, p + 1, bytes - 1) == 0; }

// Allocates blocks of the size, one at a time; checks that the first `written` bytes are zero, then
// writes them.
void use(int blocks, size_t written, size_t bytes = kBytes) {
  for (int i = 0; i < blocks; i++) {
    char* p = static_cast<char*>(sm_calloc(1, bytes));
    ASSERT_NE(p, nullptr);
    ASSERT_TRUE(is_zero(p, written)) << i;
    ASSERT_EQ(p[bytes - 1], 0) << i;
    memset(p, 0x5A, written);
    p[bytes - 1] = 0x5A;
    sm_free(p);
  }
}

// `live` blocks that live for a while: hardly any comes back as it was.
int purged_of_many(size_t live, int blocks, size_t written, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<char*> all(live);
  uint64_t before = calls();
  for (int i = 0; i < blocks; i++) {
    char*& p = all[random() % live];
    sm_free(p);
    size_t bytes = 128 * KiB + random() % (256 * KiB);
    p = static_cast<char*>(sm_calloc(1, bytes));
    EXPECT_TRUE(is_zero(p, written == 0 ? bytes : written)) << i;
    memset(p, 1, written == 0 ? bytes : written);
  }
  for (char* p : all) sm_free(p);
  return static_cast<int>(calls() - before);
}

// Makes a heap for the calling thread, with a new pace.
void begin_anew() {
  sm_free(sm_malloc(1));
  thread_cache.heap->body->zeroing = {};
}

// Runs f in a thread of its own, with a pace of its own.
template <typename F>
void in_a_thread(F f) {
  purge_all();
  std::thread([f] {
    begin_anew();
    f();
  }).join();
}

TEST(Zeroing, SparselyTouchedBlocksHaveLittleMemory) {
  in_a_thread([] {
    uint64_t before = calls();
    use(200, 100);
    EXPECT_GT(calls() - before, 150u);
    char* p = static_cast<char*>(sm_calloc(1, kBytes));
    EXPECT_LE(os::resident_bytes(p, kBytes), kBytes / 16);
    EXPECT_TRUE(is_zero(p, kBytes));
    sm_free(p);
  });
}

TEST(Zeroing, SparselyTouchedBlocksStaySparse) {
  for (size_t bytes : {kBytes, 64 * KiB}) {
    in_a_thread([bytes] {
      std::vector<char*> all(200);
      for (char*& p : all) {
        p = static_cast<char*>(sm_calloc(1, bytes));
        p[0] = p[bytes - 1] = 1;
      }
      uint64_t before = calls();
      for (char*& p : all) {
        sm_free(p);
        p = static_cast<char*>(sm_calloc(1, bytes));
        ASSERT_TRUE(is_zero(p, bytes));
      }
      EXPECT_GT(calls() - before, 150u) << bytes;
      for (char* p : all) sm_free(p);
    });
  }
}

// At that rarity one block in 16 is checked, and of 512 that are found filled one is purged.
TEST(Zeroing, OnceFilledBlocksArePurgedEventually) {
  in_a_thread([] {
    constexpr size_t kSome = 128 * KiB;
    use(200, kSome, kSome);
    use(16 * 520, 100, kSome);
    uint64_t before = calls();
    use(100, 100, kSome);
    // All, unless the thread waits so long that the block is purged in between.
    EXPECT_GE(calls() - before, 90u);
  });
}

// The next user of the memory has to fault in again the pages that calloc purges.
TEST(Zeroing, AFewThatAreHardlyTouchedAmongManyThatAreFilledAreWritten) {
  unsigned seed = seed_for_test();
  SCOPED_TRACE(seed);
  in_a_thread([seed] {
    std::mt19937 random(seed);
    std::vector<char*> all(50);
    uint64_t before = calls();
    int zeroed = 0;
    for (int i = 0; i < 10000; i++) {
      char*& p = all[random() % all.size()];
      sm_free(p);
      size_t bytes = 128 * KiB + random() % (256 * KiB);
      bool zero = random() % 8 == 0;
      zeroed += zero;
      p = static_cast<char*>(zero ? sm_calloc(1, bytes) : sm_malloc(bytes));
      zero ? void(p[0] = p[bytes - 1] = 1) : void(memset(p, 1, bytes));
    }
    for (char* p : all) sm_free(p);
    EXPECT_LT(calls() - before, static_cast<uint64_t>(zeroed) / 10);
  });
}

TEST(Zeroing, BlocksThatComeFromThePageHeapAreToo) {
  unsigned seed = seed_for_test();
  SCOPED_TRACE(seed);
  in_a_thread([seed] {
    EXPECT_GT(purged_of_many(300, 5000, 100, seed), 3000);
    EXPECT_LT(purged_of_many(100, 1000, 0, seed), 300)
        << "it has changed, and there are as many as are alive that had few pages";
  });
}

TEST(Zeroing, BlocksThatAreFilledAreWritten) {
  in_a_thread([] {
    uint64_t before = calls();
    use(200, kBytes);
    EXPECT_LE(calls() - before, 5u);
  });
}

TEST(Zeroing, SmallOnesAreWritten) {
  in_a_thread([] {
    uint64_t before = calls();
    for (int i = 0; i < 200; i++) {
      char* p = static_cast<char*>(sm_calloc(1, 48 * KiB));
      EXPECT_TRUE(is_zero(p, 48 * KiB));
      p[0] = 1;
      sm_free(p);
    }
    EXPECT_EQ(calls(), before);
  });
}

TEST(Zeroing, NothingIsPurgedWhenSwitchedOff) {
  options::OptionForTest never(options::Id::purge, "never");
  in_a_thread([] {
    uint64_t before = calls();
    use(100, 100);
    EXPECT_EQ(calls(), before);
  });
}

TEST(Zeroing, WhereItIsRefusedBlocksAreWritten) {
  in_a_thread([] {
    uint64_t before = os::call_count(os::Call::kDontNeed, os::Reason::kZero).refused;
    os::FailCalls refuse(SYS_madvise, EINVAL);
    use(200, 100);
    uint64_t refused = os::call_count(os::Call::kDontNeed, os::Reason::kZero).refused - before;
    EXPECT_GT(refused, 0u);
    EXPECT_LE(refused, 2u);
  });
}

TEST(Zeroing, BlocksAreWrittenIfResidencyIsUnknown) {
  in_a_thread([] {
    uint64_t before = calls();
    uint64_t refused_before = os::call_count(os::Call::kMincore, os::Reason::kZero).refused;
    os::FailCalls refuse(SYS_mincore, EPERM);
    use(200, 100);
    uint64_t refused =
        os::call_count(os::Call::kMincore, os::Reason::kZero).refused - refused_before;
    EXPECT_GT(refused, 0u);
    EXPECT_LE(refused, 200u / 16 + 2);
    EXPECT_LE(calls() - before, 5u);
  });
}

// Random sizes and uses by several threads: new blocks are zero, written bytes stay.
TEST(Zeroing, AnyUse) {
  unsigned seed = seed_for_test();
  SCOPED_TRACE(seed);
  purge_all();  // so that few pages are resident of the memory that the first blocks leave
  uint64_t before = calls();
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 3; t++) {
    threads.emplace_back([seed, t] {
      std::mt19937 random(seed + t);
      begin_anew();
      struct One {
        char* p;
        size_t bytes, written;
      };
      One live[12] = {};
      for (int i = 0; i < 4000; i++) {
        One& one = live[random() % 12];
        for (size_t at = 0; at < one.written; at += 512) ASSERT_EQ(one.p[at], one.p[0]);
        sm_free(one.p);
        one.bytes = 100 * KiB + random() % (1200 * KiB);
        bool zeroed = random() % 4 != 0;
        one.p = static_cast<char*>(zeroed ? sm_calloc(1, one.bytes) : sm_malloc(one.bytes));
        ASSERT_NE(one.p, nullptr);
        bool sparse = (i / 500 + t) % 2 == 0;
        if (zeroed) {
          size_t read = sparse ? 4096 : one.bytes;
          ASSERT_TRUE(is_zero(one.p, read)) << i;
          ASSERT_TRUE(is_zero(one.p + one.bytes - 64, 64)) << i;
        }
        one.written = sparse ? random() % 5000 : one.bytes;
        memset(one.p, static_cast<int>(1 + random() % 100), one.written);
      }
      for (One& one : live) sm_free(one.p);
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_GT(calls(), before);
}

// Cached memory of a huge block that was hardly touched: writing zeros would make all of it
// resident.
TEST(Zeroing, HugeBlocksHardlyTouchedStaySo) {
  constexpr size_t kBytes = 256 * MiB;
  for (int round = 0; round < 5; round++) {
    char* block = static_cast<char*>(sm_malloc(kBytes));
    ASSERT_NE(block, nullptr);
    block[0] = block[kBytes / 2] = 1;
    sm_free(block);
    block = static_cast<char*>(sm_calloc(1, kBytes));
    ASSERT_NE(block, nullptr);
    EXPECT_EQ(block[0] | block[kBytes / 2], 0);
    EXPECT_LE(os::resident_bytes(block, kBytes), 2 * MiB);
    sm_free(block);
  }
}

}  // namespace
}  // namespace seemalloc::heap

// Large callocs of used memory: always zero, and their pages are given back where the program hardly touches them.
#include "core/heap/zeroing.h"

#include <errno.h>
#include <gtest/gtest.h>
#include <seemalloc/seemalloc.h>
#include <string.h>
#include <sys/syscall.h>

#include <random>
#include <thread>
#include <vector>

#include "core/api/no_helper_for_test.h"
#include "core/api/no_samples_for_test.h"
#include "core/api/test_api.h"
#include "core/base/option_for_test.h"
#include "core/heap/housekeeping.h"
#include "core/os/calls.h"
#include "core/os/fault.h"
#include "core/os/os.h"

namespace seemalloc::heap {
namespace {

// ---- the rules ----

// How many of `blocks` are given back, each of which is freed at once, by a program that touches few or many of their pages.
int given_back(ZeroingRules& rules, int blocks, bool few) {
  int given = 0;
  bool before = false;
  for (int i = 0; i < blocks; i++) {
    if (before && rules.looks()) rules.saw(few);
    before = rules.gives_back();
    given += before;
  }
  return given;
}

TEST(Zeroing, WhatIsHardlyTouchedIsSoonGivenBackEachTime) {
  ZeroingRules rules{};
  EXPECT_GT(given_back(rules, 1000, true), 970);
}

TEST(Zeroing, WhatIsFilledIsGivenBackEverMoreSeldom) {
  ZeroingRules rules{};
  EXPECT_LE(given_back(rules, 1000, false), 7);
  EXPECT_LE(given_back(rules, 100000, false), 40);
}

TEST(Zeroing, AProgramThatChangesIsFollowed) {
  ZeroingRules rules{};
  given_back(rules, 1000, true);
  EXPECT_LE(given_back(rules, 1000, false), 20);
  EXPECT_GT(given_back(rules, 8000, true), 4000);
}

TEST(Zeroing, ALongTimeInVainIsNotForEver) {
  ZeroingRules rules{};
  given_back(rules, 1000000, false);
  given_back(rules, 20000, true);
  EXPECT_GT(given_back(rules, 1000, true), 990);
}

TEST(Zeroing, AHabitOfWhichNothingIsHeardEnds) {
  ZeroingRules rules{};
  given_back(rules, 1000, true);
  int given = 0;
  for (int i = 0; i < 10000; i++) given += rules.gives_back();
  EXPECT_LE(given, 530);
}

// Fresh blocks that live together, then are freed one after the other: how many of them were marked.
int marked(ZeroingRules& rules, int blocks, bool few) {
  int marks = 0;
  for (int i = 0; i < blocks; i++) marks += rules.marks_fresh();
  for (int i = 0; i < marks; i++) {
    if (rules.looks()) rules.saw(few);
  }
  return marks;
}

TEST(Zeroing, FreshBlocksTell) {
  ZeroingRules rules{};
  EXPECT_EQ(marked(rules, 12, true), 3);
  EXPECT_TRUE(rules.gives_back()) << "the first that would be written";
  EXPECT_EQ(marked(rules, 100, true), 0) << "it is known already";
}

TEST(Zeroing, FreshBlocksThatAreFilledAreLookedAtEverMoreSeldom) {
  ZeroingRules rules{};
  EXPECT_EQ(marked(rules, 100, false), 25);
  EXPECT_LE(marked(rules, 100000, false), 50);
  EXPECT_FALSE(rules.gives_back());
}

// ---- blocks ----

constexpr size_t kBytes = 512 * KiB;

uint64_t calls() { return os::call_count(os::Call::kDontNeed, os::Reason::kZero).calls; }
bool is_zero(const char* p, size_t bytes) { return p[0] == 0 && memcmp(p, p + 1, bytes - 1) == 0; }

// Blocks of the size, one at a time, of which so many bytes are written, after a look whether these are zero.
void use(int blocks, size_t written) {
  for (int i = 0; i < blocks; i++) {
    char* p = static_cast<char*>(sm_calloc(1, kBytes));
    ASSERT_NE(p, nullptr);
    ASSERT_TRUE(is_zero(p, written)) << i;
    ASSERT_EQ(p[kBytes - 1], 0) << i;
    memset(p, 0x5A, written);
    p[kBytes - 1] = 0x5A;
    sm_free(p);
  }
}

// Blocks that live for a while, among so many: hardly any comes again as it was.
int given_back_of_many(size_t live, int blocks, size_t written, unsigned seed) {
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

// In a thread of its own, with rules of its own.
template <typename F>
void in_a_thread(F f) {
  purge_all();  // no heap is handed on
  std::thread(f).join();
}

TEST(Zeroing, BlocksHardlyTouchedHaveLittleMemory) {
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

// A program that builds up, and only then replaces: it is known by its first blocks.
TEST(Zeroing, FreshBlocksHardlyTouchedAreEnough) {
  in_a_thread([] {
    std::vector<char*> all(200);
    for (char*& p : all) {
      p = static_cast<char*>(sm_calloc(1, kBytes));
      p[0] = p[kBytes - 1] = 1;
    }
    uint64_t before = calls();
    for (char*& p : all) {
      sm_free(p);
      p = static_cast<char*>(sm_calloc(1, kBytes));
      ASSERT_TRUE(is_zero(p, kBytes));
    }
    EXPECT_GT(calls() - before, 150u);
    for (char* p : all) sm_free(p);
  });
}

TEST(Zeroing, BlocksThatGoToThePageHeapAreHeardOf) {
  unsigned seed = std::random_device{}();
  SCOPED_TRACE(seed);
  in_a_thread([seed] {
    EXPECT_GT(given_back_of_many(300, 5000, 100, seed), 3000);
    EXPECT_LT(given_back_of_many(100, 1000, 0, seed), 300) << "it has changed: by the time that it shows, as many as are alive have been";
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

TEST(Zeroing, NothingIsGivenBackWhereThatIsSwitchedOff) {
  options::OptionForTest never(options::Id::purge, "never");
  in_a_thread([] {
    uint64_t before = calls();
    use(100, 100);
    EXPECT_EQ(calls(), before);
  });
}

TEST(Zeroing, WhereItIsRefusedBlocksAreWritten) {
  in_a_thread([] {
    os::RefuseCalls refuse(SYS_madvise, EINVAL);
    use(200, 100);
    EXPECT_GT(refuse.refusals(), 0u);
    EXPECT_LE(refuse.refusals(), 12u);
  });
}

TEST(Zeroing, WhereTheKernelDoesNotTellBlocksAreWritten) {
  in_a_thread([] {
    uint64_t before = calls();
    os::RefuseCalls refuse(SYS_mincore, EPERM);
    use(200, 100);
    EXPECT_GT(refuse.refusals(), 0u);
    EXPECT_LE(calls() - before, 5u);
  });
}

// Random sizes and uses by several threads: what comes is zero, what is written stays.
TEST(Zeroing, AnyUse) {
  unsigned seed = std::random_device{}();
  SCOPED_TRACE(seed);
  uint64_t before = calls();
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 3; t++) {
    threads.emplace_back([seed, t] {
      std::mt19937 random(seed + t);
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

}  // namespace
}  // namespace seemalloc::heap

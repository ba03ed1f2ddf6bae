// The parts of resident memory, compared with blocks of which the written part is known.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "core/api/helper/without_helper_for_test.h"
#include "core/api/malloc/test_api.h"
#include "core/api/sampling/without_samples_for_test.h"
#include "core/api/service/report.h"
#include "core/base/option_for_test.h"
#include "core/base/seed_for_test.h"
#include "core/base/units.h"
#include "core/heap/reports/residency.h"
#include "core/os/kernel/fault.h"
#include "core/os/kernel/memory.h"
#include "core/pages/page_heap/purge.h"

namespace seemalloc {
namespace {

size_t resident(const void* block, size_t bytes) {
  size_t page = os::page_bytes(), sum = 0;
  uintptr_t at = reinterpret_cast<uintptr_t>(block), end = at + bytes, first = round_down(at, page);
  std::vector<unsigned char> there((end - first) / page + 1);
  EXPECT_EQ(mincore(reinterpret_cast<void*>(first), end - first, there.data()), 0);
  while (at < end) {
    uintptr_t next = std::min(round_down(at, page) + page, end);
    if ((there[(at - first) / page] & 1) != 0) sum += next - at;
    at = next;
  }
  return sum;
}

class Blocks {
 public:
  ~Blocks() {
    for (const Block& block : blocks_) sm_free(block.start);
    pages::purge_all();
  }
  // Writes the first bytes of each.
  void add(size_t count, size_t bytes, size_t written) {
    for (size_t i = 0; i < count; i++) {
      void* start = sm_malloc(bytes);
      ASSERT_NE(start, nullptr);
      memset(start, 1, written);
      blocks_.push_back({start, sm_malloc_usable_size(start)});
    }
  }
  // Frees the last `count` blocks except each `keep`-th.
  void free_last(size_t count, size_t keep) {
    size_t first = blocks_.size() - count, left = first;
    for (size_t i = 0; i < count; i++) {
      if (keep != 0 && i % keep == 0) {
        blocks_[left++] = blocks_[first + i];
      } else {
        sm_free(blocks_[first + i].start);
      }
    }
    blocks_.resize(left);
  }
  size_t allocated() const {
    size_t sum = 0;
    for (const Block& block : blocks_) sum += block.bytes;
    return sum;
  }
  size_t live() const {
    size_t sum = 0;
    for (const Block& block : blocks_) sum += resident(block.start, block.bytes);
    return sum;
  }

 private:
  struct Block {
    void* start;
    size_t bytes;
  };
  std::vector<Block> blocks_;
};

MemoryReport report() { return memory_report(heap::statistics(), true); }

// Blocks of other tests, in this thread's lists: how much of them is resident is unknown.
constexpr size_t kLeftInLists = 512 * KiB;

size_t apart(size_t a, size_t b) { return a > b ? a - b : b - a; }

void expect_sum(const MemoryReport& r) {
  EXPECT_EQ(r.live + r.cached + r.fragmentation + r.metadata + r.not_ours, r.rss);
}

class Residency : public testing::Test {
 protected:
  options::OptionForTest never{options::Id::purge, "never"};
};

// As in a bug report: blocks that were never written are not counted as resident fragmentation.
TEST_F(Residency, UntouchedLargeBlocksAreNotLive) {
  for (size_t bytes : {40 * KiB, 100 * KiB, 900'000ul, 1 * MiB, 5 * MiB, 80 * MiB}) {
    for (size_t written : {0ul, 4096ul}) {
      Blocks blocks;
      blocks.add(72 * MiB / bytes + 1, bytes, written);
      blocks.add(60 * MiB / 1024, 1024, 1024);
      blocks.free_last(60 * MiB / 1024, 16);
      size_t live = blocks.live();
      MemoryReport r = report();
      expect_sum(r);
      EXPECT_LT(r.uncertain, kLeftInLists) << bytes;
      EXPECT_LE(apart(r.live, live), r.uncertain) << bytes;
      EXPECT_EQ(r.live_allocated, blocks.allocated()) << bytes;
      // Other tests have left some as well.
      EXPECT_LT(apart(r.fragmentation, 60 * MiB / 16 * 15), 4 * MiB) << bytes;
      EXPECT_TRUE(r.kernel_answered);
    }
  }
}

// A freed block with hardly any written memory has hardly any to return.
TEST_F(Residency, FreeMemoryMatchesStatistics) {
  for (size_t bytes : {200 * KiB, 900'000ul, 8 * MiB}) {
    Blocks blocks;
    size_t before = report().cached;
    blocks.add(64 * MiB / bytes, bytes, 4096);
    blocks.free_last(64 * MiB / bytes, 0);
    MemoryReport r = report();
    expect_sum(r);
    EXPECT_LT(r.cached, before + 64 * MiB / bytes * 8 * KiB + 64 * KiB) << bytes;
    EXPECT_LE(r.dirty, r.cached);
  }
}

// Any mixture: within the stated bound, and nearly exact where blocks are smaller than pages.
TEST_F(Residency, IsWithinItsStatedError) {
  unsigned seed = seed_for_test();
  std::mt19937 random(seed);
  for (int round = 0; round < 30; round++) {
    Blocks blocks;
    bool only_small = round % 3 == 0;
    for (int step = 0; step < 6; step++) {
      size_t bytes = size_t{8} << random() % (only_small ? 9 : 18);
      bytes += random() % bytes;
      size_t count = std::min(4 * MiB / bytes, size_t{20'000}) + 1;
      size_t written = random() % 3 == 0 ? bytes : random() % 2 == 0 ? 0 : random() % bytes;
      blocks.add(count, bytes, written);
      blocks.free_last(count, random() % 5);
    }
    size_t live = blocks.live();
    MemoryReport r = report();
    expect_sum(r);
    EXPECT_EQ(r.live_allocated, blocks.allocated());
    EXPECT_LE(apart(r.live, live), r.uncertain) << "seed " << seed << ", round " << round;
    // The last block carved from a span may reach into a page that was never touched.
    size_t spans = heap::statistics().spans.owned;
    if (only_small)
      EXPECT_LE(r.uncertain, spans * os::page_bytes()) << "seed " << seed << ", round " << round;
    if (testing::Test::HasFailure()) return;
  }
}

// Purged holes inside spans are known to be free.
TEST_F(Residency, HolesAreFree) {
  options::OptionForTest back{options::Id::purge, "balanced"};
  Blocks blocks;
  blocks.add(64 * KiB, 512, 512);
  blocks.free_last(64 * KiB, 64);
  pages::purge_all();
  sm_malloc_trim(0);
  size_t live = blocks.live();
  MemoryReport r = report();
  expect_sum(r);
  EXPECT_LE(apart(r.live, live), r.uncertain);
  EXPECT_LT(r.uncertain, kLeftInLists);
}

// If only some chunks are examined the rest is estimated, within the stated error.
TEST_F(Residency, SomeChunksStandForAll) {
  Blocks blocks;
  for (int i = 0; i < 150; i++) {
    blocks.add(2, 700'000, i % 2 == 0 ? 700'000 : 0);
    blocks.add(4000, 256, 256);
    blocks.free_last(4000, i % 4 == 0 ? 16 : 1);
    blocks.add(1, 2 * MiB, i % 3 == 0 ? 2 * MiB : 0);
  }
  heap::Statistics s = heap::statistics();
  heap::Residency all = heap::residency(s);
  EXPECT_EQ(all.variance, 0);
  EXPECT_EQ(all.live, blocks.live());
  constexpr unsigned kRounds = 50, kChunks = 40;
  double squares = 0;
  for (unsigned i = 0; i < kRounds; i++) {
    os::fault_hook = nullptr;
    uint64_t calls = os::call_count(os::Call::kMincore, os::Reason::kReport).calls;
    heap::Residency some = heap::residency(s, kChunks);
    EXPECT_LE(os::call_count(os::Call::kMincore, os::Reason::kReport).calls - calls,
              2 * kChunks + 2);
    double error = std::sqrt(some.variance);
    EXPECT_GT(error, 0);
    EXPECT_LT(error, static_cast<double>(all.live) / 4);
    for (size_t off : {apart(some.live, all.live), apart(some.fragmentation, all.fragmentation)}) {
      EXPECT_LT(static_cast<double>(off), 6 * error + static_cast<double>(some.uncertain_bytes));
    }
    squares +=
        std::pow((static_cast<double>(some.live) - static_cast<double>(all.live)) / error, 2);
  }
  EXPECT_LT(squares / kRounds, 2.5) << "the stated error is too small";
}

// If the kernel refuses to report residency, this is stated: memory that may be resident counts,
// and the bound is all of it.
TEST_F(Residency, ReportsRefusal) {
  Blocks blocks;
  blocks.add(80, 900'000, 0);
  blocks.add(10'000, 1024, 1024);
  blocks.free_last(10'000, 2);
  size_t live = blocks.live();
  for (long number : {SYS_mincore, SYS_mmap}) {
    os::FailCalls refuse(number, number == SYS_mincore ? EPERM : ENOMEM);
    MemoryReport r = report();
    EXPECT_GT(refuse.refusals(), 0u);
    expect_sum(r);
    EXPECT_FALSE(r.kernel_answered);
    EXPECT_GE(r.uncertain, apart(r.live, live));
    EXPECT_LE(r.uncertain, r.rss);
  }
  EXPECT_TRUE(report().kernel_answered);
}

// Pages that were only read are the kernel's zero page: it reports them as resident, but does not
// count them.
TEST_F(Residency, PagesThatWereOnlyReadDoNotCountForOthers) {
  Blocks blocks;
  blocks.add(1, 256 * MiB, 0);
  blocks.add(32 * KiB, 1024, 1024);
  blocks.free_last(32 * KiB, 16);
  MemoryReport before = report();
  volatile char sum = 0;
  auto* block = static_cast<volatile char*>(sm_calloc(1, 256 * MiB));
  for (size_t at = 0; at < 256 * MiB; at += 4096) sum = static_cast<char>(sum + block[at]);
  MemoryReport after = report();
  expect_sum(after);
  EXPECT_LE(apart(after.live, before.live), after.uncertain);
  EXPECT_LT(apart(after.fragmentation, before.fragmentation), 1 * MiB);
  EXPECT_LT(apart(after.cached, before.cached), 1 * MiB);
  sm_free(const_cast<char*>(block));
}

}  // namespace
}  // namespace seemalloc

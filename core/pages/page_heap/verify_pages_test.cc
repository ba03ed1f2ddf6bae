// The walks of verify.h find what is broken by hand, and nothing else.
#include <gtest/gtest.h>
#include <string.h>

#include <atomic>
#include <thread>
#include <utility>
#include <vector>

#include "core/api/helper/without_helper_for_test.h"
#include "core/base/broken_invariant_for_test.h"
#include "core/pages/huge/huge.h"
#include "core/pages/huge/huge_cache.h"
#include "core/pages/huge/huge_space.h"
#include "core/pages/huge/mapping_boundaries.h"
#include "core/pages/huge/retained_space.h"
#include "core/pages/page_heap/page_heap.h"
#include "core/pages/page_heap/verify.h"
#include "core/pages/span/page_map.h"
#include "core/pages/span/shard.h"
#include "core/pages/span/span_pool.h"

namespace seemalloc::pages {
namespace {

class VerifyPages : public testing::Test {
 protected:
  // A few spans in use, and dirty pages between them.
  void SetUp() override {
    for (int i = 0; i < 6; i++) {
      Span* span = allocate_run(0, 3, 1, SpanKind::kLarge);
      ASSERT_NE(span, nullptr);
      span->set_live(1);
      publish(span);
      spans_.push_back(span);
    }
    release(spans_[1]);
    release(spans_[4]);
    spans_.erase(spans_.begin() + 4);
    spans_.erase(spans_.begin() + 1);
    region_ = spans_[0]->region;
    ASSERT_EQ(region_->shard, 0);
    ASSERT_STREQ(text_of(verify_pages()), "nothing is broken");
  }
  void TearDown() override {
    EXPECT_STREQ(text_of(verify_pages()), "nothing is broken");
    for (Span* span : spans_) release(span);
    EXPECT_STREQ(text_of(verify_pages()), "nothing is broken");
  }

  Shard& shard_ = shards[0];
  Region* region_ = nullptr;
  std::vector<Span*> spans_;
};

TEST_F(VerifyPages, CountersOffByOne) {
  for (size_t* sum : {&shard_.used_pages, &shard_.dirty_pages, &shard_.resting_pages}) {
    Broken more(*sum, *sum + 1);
    EXPECT_BROKEN("shard.3", verify_shard(shard_));
  }
  Broken peak(shard_.peak_pages, size_t{0});
  EXPECT_BROKEN("shard.3", verify_shard(shard_));
}

TEST_F(VerifyPages, RegionInAWrongBucket) {
  {
    Broken longest(region_->longest_free, static_cast<uint16_t>(region_->longest_free - 1));
    EXPECT_BROKEN("shard.1", verify_shard(shard_));
  }
  Broken filled(shard_.nonempty_buckets[0], shard_.nonempty_buckets[0] ^ 2);
  EXPECT_BROKEN("shard.1", verify_shard(shard_));
}

TEST_F(VerifyPages, CutLists) {
  {
    Broken dirty(shard_.dirty, static_cast<Region*>(nullptr));
    EXPECT_BROKEN("shard.2", verify_shard(shard_));
  }
  {
    Broken listed(region_->on_dirty_list, false);
    EXPECT_BROKEN("shard.2", verify_shard(shard_));
  }
  {
    Broken all(shard_.all, shard_.all->next_all);
    EXPECT_NE(verify_shard(shard_), nullptr);
  }
  {
    Broken immediate(region_->immediate, true);
    EXPECT_BROKEN("shard.5", verify_shard(shard_));
  }
  Broken index(region_->shard, uint16_t{1});
  EXPECT_BROKEN("shard.4", verify_shard(shard_));
}

TEST_F(VerifyPages, PagesInTwoStates) {
  unsigned used = region_->page_of(spans_[0]->start);
  for (PageBits* pages : {&region_->old, &region_->due, &region_->lazy}) {
    pages->set(used, 1);
    EXPECT_BROKEN("region.2", verify_shard(shard_));
    pages->clear(used, 1);
  }
  region_->spare.set(used, 1);
  EXPECT_BROKEN("region.3", verify_shard(shard_));
  region_->spare.clear(used, 1);
  ASSERT_FALSE(region_->young.empty());
  unsigned dirty = 0, length = 0;
  ASSERT_TRUE(region_->young.next_run(true, 0, &dirty, &length));
  region_->purging.set(dirty, 1);
  EXPECT_BROKEN("region.3", verify_shard(shard_));
  region_->purging.clear(dirty, 1);
}

TEST_F(VerifyPages, FlagsThatExcludeEachOther) {
  {
    Broken expecting_huge_page(region_->expecting_huge_page, true);
    Broken collapsing(region_->collapsing, true);
    EXPECT_BROKEN("region.4", verify_shard(shard_));
  }
  Broken resting(region_->resting, true);
  EXPECT_BROKEN("region.5", verify_shard(shard_));
}

TEST_F(VerifyPages, EntriesOfThePageMap) {
  page_map.set(spans_[0]->start, kPageBytes, spans_[1]);
  EXPECT_BROKEN("page_map.1", verify_shard(shard_));
  page_map.set(spans_[0]->start, kPageBytes, spans_[0]);
  uintptr_t free_page = spans_[0]->start + spans_[0]->bytes;
  ASSERT_EQ(page_map.span_of(reinterpret_cast<void*>(free_page)), &free_span);
  page_map.set(free_page, kPageBytes, spans_[0]);
  EXPECT_BROKEN("page_map.1", verify_shard(shard_));
  page_map.set_free(free_page, kPageBytes);
}

TEST_F(VerifyPages, HugeBlocks) {
  Span* huge = allocate_huge(4 * MiB, kPageBytes);
  ASSERT_NE(huge, nullptr);
  EXPECT_STREQ(text_of(verify_huge()), "nothing is broken");
  {
    Broken bytes(huge->bytes, huge->bytes - kPageBytes);
    EXPECT_BROKEN("huge.2", verify_huge());
  }
  {
    Broken previous(huge->prev, huge);
    EXPECT_BROKEN("span_list.1", verify_huge());
  }
  {
    Broken kind(huge->kind, SpanKind::kLarge);
    EXPECT_BROKEN("huge.1", verify_huge());
  }
  release_huge(huge);
}

// While a block moves, another block may take its old addresses.
TEST_F(VerifyPages, HugeBlocksThatMove) {
  std::atomic<int> left{4};
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 4; t++) {
    threads.emplace_back([&, t] {
      for (unsigned round = 0; round < 1000; round++) {
        Span* block = allocate_huge(2 * MiB, kPageBytes);
        if (block != nullptr) {
          for (size_t bytes = 3; bytes < 8 + t; bytes++) resize_huge(block, bytes * MiB);
          release_huge(block);
        }
        if (round % 16 == t) purge_huge(UINT64_MAX);
      }
      left--;
    });
  }
  const char* broken = nullptr;
  while (left != 0 && broken == nullptr) broken = verify_huge();
  for (std::thread& thread : threads) thread.join();
  EXPECT_STREQ(text_of(broken), "nothing is broken");
}

TEST_F(VerifyPages, RecordsOfSpans) {
  Span* one = allocate_span_record(SpanKind::kLarge);
  Span* other = allocate_span_record(SpanKind::kLarge);
  free_span_record(one);
  free_span_record(other);
  {
    Broken kind(one->kind, SpanKind::kLarge);
    EXPECT_BROKEN("span_pool.4", verify_span_pool());
  }
  ASSERT_EQ(other->next, one);
  Broken cut(other->next, static_cast<Span*>(nullptr));
  EXPECT_BROKEN("span_pool.4", verify_span_pool());
}

// Its memory is the test's, so a copy can be written to.
TEST(VerifyHugeCache, ExtentsThatOverlap) {
  static HugeCache cache;
  ASSERT_TRUE(cache.put({1 * GiB, 8 * MiB, 1, false}));
  ASSERT_TRUE(cache.put({2 * GiB, 8 * MiB, 2, false}));
  EXPECT_EQ(cache.verify(), nullptr);
  auto* words = reinterpret_cast<uint64_t*>(&cache);
  size_t word = 0;
  while (words[word] != 2 * GiB) word++;
  {
    Broken start(words[word], uint64_t{1 * GiB + 4 * MiB});
    EXPECT_BROKEN("huge_cache.1", cache.verify());
  }
  Broken bytes(words[word + 1], uint64_t{4 * MiB});
  EXPECT_BROKEN("huge_cache.2", cache.verify());
}

TEST(VerifyKeptSpace, RangesThatAreNotFiled) {
  static RetainedSpace kept;
  ASSERT_TRUE(kept.put({1 * GiB, 1 * MiB}));
  ASSERT_TRUE(kept.put({2 * GiB, 4 * MiB}));
  EXPECT_EQ(kept.verify(), nullptr);
  Range range{};
  ASSERT_TRUE(kept.take_adjacent(2 * GiB, &range));
  EXPECT_EQ(kept.verify(), nullptr);
  auto* words = reinterpret_cast<uint64_t*>(&kept);
  size_t word = 0;
  while (words[word] != 1 * MiB) word++;  // the sum
  Broken bytes(words[word], uint64_t{1 * MiB + kPageBytes});
  EXPECT_BROKEN("retained_space.3", kept.verify());
}

TEST(VerifyMappingBoundaries, OutOfOrder) {
  static MappingBoundaries boundaries;
  for (uintptr_t address : {3 * MiB, 1 * MiB, 2 * MiB}) boundaries.add(address);
  EXPECT_EQ(boundaries.verify(), nullptr);
  auto* words = reinterpret_cast<uint64_t*>(&boundaries);
  size_t word = 0;
  while (words[word] != 2 * MiB) word++;
  Broken order(words[word], uint64_t{3 * MiB});
  EXPECT_BROKEN("mapping_boundaries.1", boundaries.verify());
}

}  // namespace
}  // namespace seemalloc::pages

// The walks of verify.h find what is broken by hand, and nothing else.
#include <gtest/gtest.h>
#include <seemalloc/seemalloc.h>
#include <string.h>

#include <thread>
#include <utility>
#include <vector>

#include "core/api/helper/without_helper_for_test.h"
#include "core/api/malloc/test_api.h"
#include "core/api/sampling/without_samples_for_test.h"
#include "core/base/broken_invariant_for_test.h"
#include "core/heap/reports/verify.h"
#include "core/heap/spans/central.h"
#include "core/heap/spans/remote_batch.h"
#include "core/heap/spans/sampled.h"
#include "core/heap/thread/thread_cache.h"
#include "core/heap/thread/thread_heap.h"
#include "core/pages/span/page_map.h"

namespace seemalloc::heap {
namespace {

using pages::page_map;
using pages::SpanState;

constexpr size_t kBytes = 200;

// The thread has some spans of a class: some full, one current, and some with every other block
// free.
class VerifyHeap : public testing::Test {
 protected:
  void SetUp() override {
    for (int i = 0; i < 3000; i++) blocks_.push_back(static_cast<Block*>(sm_malloc(kBytes)));
    for (size_t i = 0; i < blocks_.size() / 2; i += 2) sm_free(std::exchange(blocks_[i], nullptr));
    heap_ = thread_cache.heap;
    class_ = class_of(kBytes);
    available_ = heap_->body->classes[class_].available.front();
    full_ = heap_->body->classes[class_].full.front();
    current_ = heap_->body->classes[class_].current;
    ASSERT_TRUE(available_ != nullptr && available_->local_free != nullptr && full_ != nullptr &&
                current_ != nullptr);
    ASSERT_STREQ(text_of(verify_all()), "nothing is broken");
  }
  void TearDown() override {
    EXPECT_STREQ(text_of(verify_all()), "nothing is broken");
    for (Block* block : blocks_) sm_free(block);
    EXPECT_STREQ(text_of(verify_all()), "nothing is broken");
  }

  ClassState& state() { return heap_->body->classes[class_]; }

  std::vector<Block*> blocks_;
  ThreadHeap* heap_ = nullptr;
  unsigned class_ = 0;
  Span* available_ = nullptr;
  Span* full_ = nullptr;
  Span* current_ = nullptr;
};

TEST_F(VerifyHeap, CountersOffByOne) {
  {
    Broken countdown(available_->countdown, available_->countdown + 1);
    EXPECT_BROKEN("span.2", verify_heap(*heap_));
  }
  {
    Broken bias(full_->bias, full_->bias + 1);
    EXPECT_BROKEN("span.1", verify_heap(*heap_));
  }
  {
    Broken carved(full_->carved, full_->capacity + 1);
    EXPECT_BROKEN("span.4", verify_heap(*heap_));
  }
  {
    Broken countdown(current_->countdown, uint32_t{0});
    EXPECT_NE(verify_heap(*heap_), nullptr);
  }
  Broken holes(available_->hole_blocks_, uint32_t{1});
  EXPECT_BROKEN("span.1", verify_heap(*heap_));
}

TEST_F(VerifyHeap, WrongStates) {
  for (Span* span : {available_, full_, current_}) {
    {
      Broken state(span->state, SpanState::kDetached);
      EXPECT_BROKEN("thread_heap.1", verify_heap(*heap_));
    }
    {
      Broken owner(span->owner_, Span::kNoOwner);
      EXPECT_BROKEN("thread_heap.1", verify_heap(*heap_));
    }
    span->remote.store(kUnowned);
    EXPECT_BROKEN("span.3", verify_heap(*heap_));
    span->remote.store(0);
  }
  Broken ready(heap_->body->local_refill_spans[class_], full_);
  EXPECT_BROKEN("thread_heap.2", verify_heap(*heap_));
}

TEST_F(VerifyHeap, CutAndCrossedLists) {
  {
    Broken link(available_->next, static_cast<Span*>(nullptr));
    EXPECT_BROKEN("span_list.1", verify_heap(*heap_));
  }
  {
    Broken link(available_->prev, full_);
    EXPECT_BROKEN("span_list.1", verify_heap(*heap_));
  }
  {
    Broken link(available_->local_free->next, static_cast<Block*>(nullptr));
    EXPECT_BROKEN("span.2", verify_heap(*heap_));
  }
  {
    Broken link(available_->local_free->next, available_->local_free);  // a ring
    EXPECT_BROKEN("span.2", verify_heap(*heap_));
  }
  {
    Broken list(available_->local_free,
                reinterpret_cast<Block*>(reinterpret_cast<char*>(available_->local_free) + 8));
    EXPECT_BROKEN("span.2", verify_heap(*heap_));
  }
  Broken water(state().low_water, state().available.size() + 1);
  EXPECT_BROKEN("thread_heap.3", verify_heap(*heap_));
}

TEST_F(VerifyHeap, ListsOfTheThread) {
  {
    Broken list(thread_cache.heads[class_], full_->block_at(0));
    EXPECT_BROKEN("thread_heap.4", verify_heap(*heap_));
  }
  {
    Broken count(state().stash_count, uint32_t{1});
    EXPECT_BROKEN("thread_heap.4", verify_heap(*heap_));
  }
  {
    Broken due(state().sample_due, uint8_t{1});
    EXPECT_BROKEN("thread_heap.4", verify_heap(*heap_));
  }
  {
    Broken count(state().gathered_count, uint32_t{1});
    EXPECT_BROKEN("thread_heap.5", verify_heap(*heap_));
  }
  Broken bytes(heap_->gathered_bytes, size_t{1});
  EXPECT_BROKEN("thread_heap.5", verify_heap(*heap_));
}

TEST_F(VerifyHeap, CachedLargeSpans) {
  void* large = sm_malloc(100 * KiB);
  Span* span = page_map.span_of(large);
  sm_free(large);
  ASSERT_EQ(span->kind, pages::SpanKind::kCachedLarge);
  EXPECT_STREQ(text_of(verify_heap(*heap_)), "nothing is broken");
  Broken kind(span->kind, pages::SpanKind::kLarge);
  EXPECT_BROKEN("large_cache.1", verify_heap(*heap_));
}

TEST_F(VerifyHeap, HeapOfAnotherThread) {
  std::thread([&] {
    EXPECT_STREQ(text_of(verify_heap(*heap_)), "nothing is broken");
    Broken state(full_->state, SpanState::kCurrent);
    EXPECT_BROKEN("thread_heap.1", verify_heap(*heap_));
  }).join();
}

TEST_F(VerifyHeap, CentralList) {
  Block* lent = nullptr;
  ASSERT_EQ(central_take_shared_blocks(class_, 2, &lent), 2u);
  Block* second = lent->next;
  Span* span = page_map.span_of(lent);
  EXPECT_STREQ(text_of(verify_central(class_, verify_span)), "nothing is broken");
  {
    Broken countdown(span->countdown, span->countdown + 1);
    EXPECT_NE(verify_central(class_, verify_span), nullptr);
  }
  {
    Broken owner(span->owner_, reinterpret_cast<uintptr_t>(heap_));
    EXPECT_BROKEN("central.1", verify_central(class_, verify_span));
  }
  {
    Broken state(span->state, SpanState::kFull);
    EXPECT_BROKEN("central.2", verify_central(class_, verify_span));
  }
  {
    Broken blocks_are_shared(span->blocks_are_shared_, false);
    EXPECT_BROKEN("central.2", verify_central(class_, verify_span));
  }
  span->remote.store(0);
  EXPECT_BROKEN("central.1", verify_central(class_, verify_span));
  span->remote.store(kUnowned);
  for (Block* block : {lent, second}) ASSERT_TRUE(central_free(span, block, block, 1));
}

TEST_F(VerifyHeap, SampledBlocks) {
  ASSERT_EQ(seemalloc_profile_start(1), 0);
  void* block = sm_malloc(3000);  // of a class without a list
  ASSERT_EQ(seemalloc_profile_start(0), 0);
  Span* span = page_map.span_of(block);
  ASSERT_EQ(span->kind, pages::SpanKind::kSampled);
  EXPECT_STREQ(text_of(verify_sampled(verify_span)), "nothing is broken");
  {
    Broken id(span->sample_ids[0], UINT32_MAX);
    EXPECT_BROKEN("sampled.3", verify_sampled(verify_span));
  }
  {
    Broken bytes(span->sampled_bytes_, span->sampled_bytes_ + 8);
    EXPECT_BROKEN("sampled.3", verify_sampled(verify_span));
  }
  {
    Broken state(span->state, SpanState::kCurrent);
    EXPECT_BROKEN("sampled.1", verify_sampled(verify_span));
  }
  sm_free(block);
}

TEST_F(VerifyHeap, TheProcessEndsWithTheInvariant) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        full_->state = SpanState::kAvailable;
        require_sound(verify_all());
      },
      "seemalloc: invariant thread_heap.1: ");
}

}  // namespace
}  // namespace seemalloc::heap

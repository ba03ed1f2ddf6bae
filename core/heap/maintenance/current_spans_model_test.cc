// Runs the code of current_span_protocol.h and span_counts.h in every interleaving, on a machine
// with weak memory. Broken variants of the code must fail, which shows that the test can fail.
//
// The owner pops its thread free list to the end, takes the local free list of the current span
// while it may, and otherwise refills under the lock, from the current span or the next one. It
// writes to the blocks that it gets, and frees the first one. The purger closes the class, detaches
// the current span and reads the rest of its free list, as holes.cc does, then writes to it.
#include <gtest/gtest.h>

#include <array>

#include "core/arch/generic/portable_pop.h"
#include "core/base/model_machine_for_test.h"
#include "core/heap/spans/current_span_protocol.h"

namespace seemalloc::heap {
namespace {

struct ModelBlock {
  Plain<ModelBlock*> next;  // also stands for the rest of the block
};

struct ModelSpan : pages::SpanCounts<ModelSpan> {
  const uint32_t carved, block_bytes = 8;
  ModelAtomic<ModelBlock*> local_free;
  ModelAtomic<uint32_t> countdown, bias{0 - kNoCountdown}, hole_blocks_{0};

  ModelSpan(uint32_t blocks, uint32_t live, ModelBlock* list)
      : carved(blocks), local_free(list), countdown(live + kNoCountdown) {}
  bool is_carved_block(const ModelBlock*) const { return true; }
};
void note_detached(ModelSpan*) {}

struct ModelClass {
  Plain<ModelSpan*> current;
  bool lists_not_from_current = false;
};
struct ModelBody {
  std::array<ModelAtomic<ModelSpan*>, 1> local_refill_spans;
  std::array<uint32_t, 1> local_refills_left{100};
  std::array<ModelClass, 1> classes;
};
struct ModelHeap {
  ModelLock slow_lock;
  ModelBody* body;
  uint64_t allocated_bytes = 0, sample_at = UINT64_MAX;
  uint32_t detached_spans = 0;
};
struct ModelCache {
  std::array<ModelAtomic<ModelBlock*>, 1> heads;
};

// The steps as they ship. Variants replace some of them.
struct AsShipped {
  static uint64_t close(ModelHeap& heap, ModelCache&, auto choose) {
    return close_local_refills<ModelMachine>(heap, choose);
  }
  // The kernel copies the list; an acquire fence follows.
  static ModelBlock* list_head(ModelCache& cache) { return load_acquire(cache.heads[0]); }
};

template <class Steps>
class World {
 public:
  static constexpr unsigned kThreads = 2;
  bool purged = false, gave_up = false, took_local_frees = false;

  World() { heap_.body = &body_; }
  void start(Model& model) {
    model.has_fences = true;
    model.stores_continue_releases = true;  // malloc's pop stores the list's head without ordering
    auto write = [this] { malloc_and_write(); };
    model.thread({[this] { malloc_and_free(); }, write, write, write, write}, 1);
    model.thread({[this] { purge(); }}, 1);
    model.before_run = [this] { before_run(); };
  }

 private:
  static constexpr unsigned kBlocks = 5;

  // Private to the owner.
  void before_run() {
    heap_.allocated_bytes = 0;
    heap_.detached_spans = 0;
    body_.local_refills_left[0] = 100;
  }
  void malloc_and_free() {
    ModelBlock* block = malloc();
    span_.push_local_free(block);
    Model::current().check(!span_.count_down(), "the countdown of a current span has ended");
  }
  void malloc_and_write() {
    if (ModelBlock* block = malloc()) block->next = nullptr;
  }
  void purge() {
    uint64_t classes = Steps::close(heap_, cache_, [&] { return uint64_t{1}; });
    auto list_head = [&] { return Steps::list_head(cache_); };
    auto may_take = [](const ModelSpan*, const ModelBlock*) { return true; };
    ModelSpan* span = nullptr;
    if (classes != 0) span = take_closed_span<ModelSpan>(heap_, 0, list_head, may_take);
    if (span == nullptr) return void(gave_up = true);
    if (span != &span_) return;
    heap_.slow_lock.lock();
    uint32_t count = listed_blocks(span);
    ModelBlock* first = span->free_list_acquire();
    heap_.slow_lock.unlock();
    if (first == nullptr) return;
    uint32_t behind = 0;
    ModelBlock* next = nullptr;
    for (ModelBlock* block = first->next; block != nullptr; block = next, behind++) {
      next = block->next;
      block->next = next;  // its page is purged
      purged = true;
    }
    // A block that is being freed may be on the list and not be counted.
    Model::current().check(behind + 1 >= count, "counted blocks are not on the list");
  }
  ModelBlock* malloc() {
    if (ModelBlock* block = pop_first(cache_.heads[0])) return block;
    if (ModelBlock* block = take_local_frees(heap_, cache_, 0)) {
      took_local_frees = true;
      return block;
    }
    heap_.slow_lock.lock();
    ModelBlock* block = refill_locked();
    heap_.slow_lock.unlock();
    return block;
  }
  // As refill_locked in owner_paths.cc, without samples and new spans.
  ModelBlock* refill_locked() {
    body_.local_refill_spans[0].store(nullptr, std::memory_order_relaxed);
    ModelClass& cs = body_.classes[0];
    ModelSpan* span = cs.current;
    if (span == nullptr || span->free_blocks() == 0) cs.current = span = &next_span_;
    ModelBlock* first = load_own(span->local_free);
    if (first == nullptr) return nullptr;
    span->local_free.store(nullptr, std::memory_order_relaxed);
    span->set_live_without_countdown(span->carved);
    body_.local_refill_spans[0].store(span, std::memory_order_relaxed);
    racy_store(cache_.heads[0], static_cast<ModelBlock*>(first->next));
    return first;
  }

  // Block 0 is the thread free list, 1 to 3 are the local free list, 4 is that of the next span.
  std::array<ModelBlock, kBlocks> blocks_{ModelBlock{nullptr}, ModelBlock{&blocks_[2]},
                                          ModelBlock{&blocks_[3]}, ModelBlock{nullptr},
                                          ModelBlock{nullptr}};
  ModelSpan span_{4, 1, &blocks_[1]}, next_span_{1, 0, &blocks_[4]};
  ModelBody body_{{&span_}, {100}, {ModelClass{&span_}}};
  ModelHeap heap_{{}, nullptr};
  ModelCache cache_{{&blocks_[0]}};
};

TEST(CurrentSpansModel, NeverBothAtTheListInAnyInterleaving) {
  auto inspect = [](const Model& model, const World<AsShipped>& world) {
    EXPECT_GT(model.states(), 1000u);
    EXPECT_TRUE(world.purged);
    EXPECT_TRUE(world.gave_up);
    EXPECT_TRUE(world.took_local_frees);
  };
  EXPECT_EQ(explore<World<AsShipped>>([](Model&) {}, inspect), "");
}

// The fence and the store that ends take_local_frees.
TEST(CurrentSpansModel, EachOrderIsNeeded) {
  unsigned tried = 0;
  EXPECT_EQ(unneeded_orders<World<AsShipped>>("current_span_protocol.h", &tried), "");
  EXPECT_EQ(tried, 2u);
}

// The four orders of span_counts.h.
TEST(CurrentSpansModel, EachOrderOfTheListAndItsCountIsNeeded) {
  unsigned tried = 0;
  EXPECT_EQ(unneeded_orders<World<AsShipped>>("span_counts.h", &tried), "");
  EXPECT_EQ(tried, 4u);
}

struct CopiesWithoutAcquire : AsShipped {
  static ModelBlock* list_head(ModelCache& cache) { return load_relaxed(cache.heads[0]); }
};
TEST(CurrentSpansModel, TheListIsReadWithAcquire) {
  EXPECT_NE(problem_of<World<CopiesWithoutAcquire>>(), "");
}

struct TakesWhereTheListHasEnded : AsShipped {
  static ModelBlock* list_head(ModelCache& cache) {
    static int a_list;
    load_acquire(cache.heads[0]);
    return reinterpret_cast<ModelBlock*>(&a_list);
  }
};
TEST(CurrentSpansModel, WhereTheListHasEndedTheOwnerMayBeAnywhere) {
  EXPECT_NE(problem_of<World<TakesWhereTheListHasEnded>>(), "");
}

struct ReadsTheListBeforeTheFence : AsShipped {
  static inline ModelBlock* seen_before;
  static uint64_t close(ModelHeap& heap, ModelCache& cache, auto choose) {
    seen_before = load_acquire(cache.heads[0]);
    return close_local_refills<ModelMachine>(heap, choose);
  }
  static ModelBlock* list_head(ModelCache&) { return seen_before; }
};
TEST(CurrentSpansModel, AListThatIsSeenBeforeTheFenceHasEndedByThen) {
  EXPECT_NE(problem_of<World<ReadsTheListBeforeTheFence>>(), "");
}

}  // namespace
}  // namespace seemalloc::heap

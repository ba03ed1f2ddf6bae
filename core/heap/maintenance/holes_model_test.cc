// Runs the code of hole_search.h and span_counts.h in every interleaving, on a machine with weak
// memory. Broken variants of the code must fail, which shows that the test can fail.
//
// A span of three pages with two blocks each. Blocks 0 and 5 are live; 1, 2, 3, 4 are on the list
// in this order. The owner frees block 0 without a lock, and then takes the list and the holes
// under the lock, as a refill does, and writes to the blocks. The purger detaches the span, makes
// holes, purges them (writes to them) and reattaches the span.
#include <gtest/gtest.h>

#include <array>

#include "core/base/model_machine_for_test.h"
#include "core/heap/maintenance/hole_search.h"

namespace seemalloc::heap {
namespace {

constexpr uint32_t kBlocks = 6, kBlockBytes = 2048;

// A block lies at its place in real memory, which holds the link's variable of the model.
struct alignas(kBlockBytes) ModelBlock {
  Plain<ModelBlock*> next;  // also stands for the rest of the block
};
static_assert(sizeof(ModelBlock) == kBlockBytes);
struct alignas(4096) Memory {
  std::array<ModelBlock, kBlocks> blocks;
};

struct ModelSpan : pages::SpanCounts<ModelSpan> {
  static constexpr uint32_t carved = kBlocks, block_bytes = kBlockBytes;
  static constexpr size_t bytes = size_t{kBlocks} * kBlockBytes;
  static constexpr bool known_zero = false;
  Memory& memory;
  const uintptr_t start;
  ModelAtomic<ModelBlock*> local_free;
  ModelAtomic<uint32_t> countdown{2}, bias{0}, hole_blocks_{0};
  Plain<uint32_t> holes{0};

  explicit ModelSpan(Memory& of)
      : memory(of), start(reinterpret_cast<uintptr_t>(&of)), local_free(&of.blocks[1]) {}
  ModelBlock* block_at(uint32_t index) const { return &memory.blocks[index]; }
  bool is_carved_block(const ModelBlock*) const { return true; }
};
bool is_on_huge_page(const ModelSpan*) { return false; }

// The steps as they ship. Variants replace some of them.
struct AsShipped {
  static uint32_t search(ModelSpan* span, ModelLock& lock) {
    return hole_search::make_holes(span, lock);
  }
  static bool may_allocate(bool detached) { return !detached; }
};

template <class Steps>
class World {
 public:
  static constexpr unsigned kThreads = 2;
  bool purged = false, allocated = false, refilled_hole = false;

  void start(Model& model) {
    model.thread({[this] { free(); }, [this] { refill(); }}, 1);
    model.thread({[this] { purge(); }}, 1);
    model.at_end = [this] { return at_end(); };
  }

 private:
  void free() {
    span_.push_local_free(&memory_.blocks[0]);
    Model::current().check(!span_.count_down(), "the countdown ends with a live block");
  }
  void refill() {
    lock_.lock();
    if (Steps::may_allocate(detached_)) allocate();
    lock_.unlock();
  }
  void purge() {
    lock_.lock();
    detached_ = true;
    lock_.unlock();
    uint32_t pages = Steps::search(&span_, lock_);
    for (; pages != 0; pages &= pages - 1) {
      BlockRange range = blocks_starting_in(&span_, lowest_page(pages));
      for (uint32_t i = range.first; i < range.end; i++) memory_.blocks[i].next = nullptr;
      purged = true;
    }
    lock_.lock();
    detached_ = false;
    lock_.unlock();
  }
  // Each block is live, on the list or in a hole.
  std::string at_end() {
    uint32_t live = 1, listed = 0, in_holes = 0;
    for (auto* block = load_own(span_.local_free); block != nullptr; block = block->next) listed++;
    for (uint32_t pages = span_.holes; pages != 0; pages &= pages - 1) {
      BlockRange range = blocks_starting_in(&span_, lowest_page(pages));
      in_holes += range.end - range.first;
    }
    if (in_holes != span_.hole_blocks()) return "holes are not what was counted";
    if (listed != span_.free_blocks()) return "the list is not what was counted";
    if (!allocated_ && live + listed + in_holes != kBlocks) return "a block is lost";
    return "";
  }
  // As refill: the list, then the holes.
  void allocate() {
    std::array<bool, kBlocks> mine{};
    auto take = [&](uint32_t i) {
      Model::current().check(i != 5 && !mine[i], "a block is allocated twice");
      mine[i] = true;
    };
    uint32_t listed = 0;
    ModelBlock* next = nullptr;
    for (ModelBlock* block = load_own(span_.local_free); block != nullptr; block = next, listed++) {
      next = block->next;
      take(hole_search::number_of(&span_, block));
    }
    Model::current().check(listed == span_.free_blocks(), "the list is not what was counted");
    span_.local_free.store(nullptr, std::memory_order_relaxed);
    for (uint32_t pages = span_.holes; pages != 0; pages &= pages - 1) {
      BlockRange range = blocks_starting_in(&span_, lowest_page(pages));
      for (uint32_t i = range.first; i < range.end; i++) take(i);
      span_.remove_holes(1u << lowest_page(pages), range.end - range.first);
      refilled_hole = true;
    }
    for (uint32_t i = 0; i < 5; i++) {
      Model::current().check(mine[i], "a block is lost");
      memory_.blocks[i].next = nullptr;  // the program writes to it
    }
    span_.set_live_without_countdown(kBlocks);
    allocated_ = true;
    allocated = true;
  }

  Memory memory_{{ModelBlock{nullptr}, ModelBlock{&memory_.blocks[2]},
                  ModelBlock{&memory_.blocks[3]}, ModelBlock{&memory_.blocks[4]},
                  ModelBlock{nullptr}, ModelBlock{nullptr}}};
  ModelSpan span_{memory_};
  ModelLock lock_;
  Plain<bool> detached_{false}, allocated_{false};
};

TEST(HolesModel, NoInterleavingLosesABlockOrPurgesOneInUse) {
  auto inspect = [](const Model& model, const World<AsShipped>& world) {
    EXPECT_GT(model.states(), 100u);
    EXPECT_TRUE(world.purged);
    EXPECT_TRUE(world.allocated);
    EXPECT_TRUE(world.refilled_hole);
  };
  EXPECT_EQ(explore<World<AsShipped>>([](Model&) {}, inspect), "");
}

// A count that is read without its list is noticed: copy_free_list() refuses. That the count has
// acquire and release is needed for the release of a span (span_counts_model_test.cc).
TEST(HolesModel, EachOrderOfTheListIsNeeded) {
  unsigned tried = 0;
  EXPECT_EQ(unneeded_orders<World<AsShipped>>("span_counts.h", &tried),
            "count_down store: relaxed is enough\n"
            "live_acquire load: relaxed is enough\n");
  EXPECT_EQ(tried, 4u);
}

struct AllocatesFromADetachedSpan : AsShipped {
  static bool may_allocate(bool) { return true; }
};
TEST(HolesModel, ASpanThatIsNotDetachedIsPurgedInUse) {
  EXPECT_NE(problem_of<World<AllocatesFromADetachedSpan>>(), "");
}

// Changes nothing, unless the owner has pushed a block in front meanwhile.
struct ReplacesTheFirstBlock : AsShipped {
  static uint32_t search(ModelSpan* span, ModelLock& lock) {
    auto list = hole_search::read_free_list(span, lock);
    LockGuard guard(lock);
    store_release(span->local_free, list.first);
    return 0;
  }
};
TEST(HolesModel, ReplacingFirstBlockLosesOwnerFrees) {
  EXPECT_NE(problem_of<World<ReplacesTheFirstBlock>>(), "");
}

struct WritesTheCountdown : AsShipped {
  static uint32_t search(ModelSpan* span, ModelLock& lock) {
    auto list = hole_search::read_free_list(span, lock);
    uint32_t pages = hole_search::find_holes(span, list);
    if (pages == 0) return 0;
    LockGuard guard(lock);
    uint32_t bias = load_own(span->bias), before = span->hole_blocks();
    hole_search::unlink_blocks(span, list, pages);
    store_relaxed(span->bias, bias);
    store_relaxed(span->countdown, load_own(span->countdown) + span->hole_blocks() - before);
    return pages;
  }
};
TEST(HolesModel, CountdownWrittenByAnotherThreadIsDetected) {
  EXPECT_NE(problem_of<World<WritesTheCountdown>>(), "");
}

struct PurgesPagesWithLiveBlocks : AsShipped {
  static uint32_t search(ModelSpan* span, ModelLock& lock) {
    return hole_search::make_holes(span, lock) != 0 ? 0b111 : 0;
  }
};
TEST(HolesModel, APageWithALiveBlockIsNoHole) {
  EXPECT_NE(problem_of<World<PurgesPagesWithLiveBlocks>>(), "");
}

}  // namespace
}  // namespace seemalloc::heap

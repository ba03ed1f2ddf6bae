// Runs the code of span_counts.h in every interleaving, on a machine with weak memory: an owner
// that frees without a lock, and another thread under the owner's lock. Broken variants of the code
// must fail, which shows that the test can fail.
//
// The span has two live blocks and two free ones. The owner frees the live ones; when its countdown
// ends it releases the span, if that is empty and not detached. The other thread detaches the span,
// makes a hole of a free block and reattaches it, as heap/maintenance/holes.cc does. Later it
// releases the span if it finds it empty, as a remote free does (heap/slow_paths/remote.h, rule 6).
// A release writes to all blocks.
#include "core/pages/span/span_counts.h"

#include <gtest/gtest.h>

#include <array>

#include "core/base/model_machine_for_test.h"

namespace seemalloc::pages {
namespace {

struct ModelBlock {
  Plain<ModelBlock*> next;  // also stands for the rest of the block
};
struct ModelSpan : SpanCounts<ModelSpan> {
  static constexpr uint32_t carved = 4, block_bytes = 8;
  ModelAtomic<ModelBlock*> local_free;
  ModelAtomic<uint32_t> countdown{2}, bias{0}, hole_blocks_{0};
  Plain<uint32_t> holes{0};
  explicit ModelSpan(ModelBlock* list) : local_free(list) {}
};

// The steps as they ship. Variants replace some of them.
struct AsShipped {
  static bool free(ModelSpan& span, ModelBlock* block) {
    span.push_local_free(block);
    return span.count_down();
  }
  // Returns the first block, and the number of blocks that are on the list with it.
  static ModelBlock* read_list(ModelSpan& span, uint32_t* count) {
    *count = span.carved - span.live_acquire();
    return span.free_list_acquire();
  }
  static void count_holes(ModelSpan& span) { span.add_holes(1, 1); }
  static bool may_release(bool detached) { return !detached; }
};

template <class Steps>
class World {
 public:
  static constexpr unsigned kThreads = 2;
  bool owner_released = false, other_released = false, made_a_hole = false;

  void start(Model& model) {
    model.thread({[this] { free(0); }, [this] { free(1); }}, 1);
    model.thread({[this] { make_hole(); }, [this] { release_if_empty(); }}, 1);
    model.at_end = [this] { return owned_ ? "an empty span is not released" : ""; };
  }

 private:
  void free(unsigned i) {
    if (!Steps::free(span_, &blocks_[i])) return;
    lock_.lock();
    if (owned_ && Steps::may_release(detached_) && span_.is_empty()) {
      release();
      owner_released = true;
    }
    lock_.unlock();
  }
  void make_hole() {
    lock_.lock();
    uint32_t count = 0;
    ModelBlock* first = nullptr;
    if (owned_) {
      detached_ = true;
      first = Steps::read_list(span_, &count);
    }
    lock_.unlock();
    if (first == nullptr) return;
    make_hole_behind(first, count);
    lock_.lock();
    detached_ = false;
    lock_.unlock();
  }
  void release_if_empty() {
    lock_.lock();
    if (owned_ && span_.is_empty_acquire()) {
      release();
      other_released = true;
    }
    lock_.unlock();
  }
  // Makes a hole of the last block of the list.
  void make_hole_behind(ModelBlock* first, uint32_t count) {
    uint32_t listed = 1;
    ModelBlock *last = first, *before = nullptr;
    for (ModelBlock* next = last->next; next != nullptr; next = last->next, listed++) {
      before = last;
      last = next;
    }
    Model::current().check(listed >= count, "counted blocks are not on the list");
    if (listed != count) return;  // a block is being freed
    lock_.lock();
    before->next = nullptr;
    Steps::count_holes(span_);
    lock_.unlock();
    last->next = nullptr;  // its page is purged
    made_a_hole = true;
  }
  void release() {
    uint32_t listed = 0;
    for (ModelBlock* block = load_own(span_.local_free); block != nullptr; block = block->next)
      listed++;
    Model::current().check(listed + span_.hole_blocks() == span_.carved, "a block is lost");
    for (ModelBlock& block : blocks_) block.next = nullptr;
    owned_ = false;
  }

  // Blocks 0 and 1 are live; 2 and 3 are on the list.
  std::array<ModelBlock, 4> blocks_{ModelBlock{nullptr}, ModelBlock{nullptr},
                                    ModelBlock{&blocks_[3]}, ModelBlock{nullptr}};
  ModelSpan span_{&blocks_[2]};
  ModelLock lock_;
  Plain<bool> owned_{true}, detached_{false};
};

TEST(SpanCountsModel, AnEmptySpanIsReleasedOnceAndWithAllItsBlocks) {
  auto inspect = [](const Model& model, const World<AsShipped>& world) {
    EXPECT_GT(model.states(), 100u);
    EXPECT_TRUE(world.owner_released);
    EXPECT_TRUE(world.other_released);
    EXPECT_TRUE(world.made_a_hole);
  };
  EXPECT_EQ(explore<World<AsShipped>>([](Model&) {}, inspect), "");
}

TEST(SpanCountsModel, EachOrderIsNeeded) {
  unsigned tried = 0;
  EXPECT_EQ(unneeded_orders<World<AsShipped>>("span_counts.h", &tried), "");
  EXPECT_EQ(tried, 4u);
}

struct CountsBeforeItPushes : AsShipped {
  static bool free(ModelSpan& span, ModelBlock* block) {
    bool ended = span.count_down();
    span.push_local_free(block);
    return ended;
  }
};
TEST(SpanCountsModel, TheCountdownIsTheLastAccessOfAFree) {
  EXPECT_NE(problem_of<World<CountsBeforeItPushes>>(), "");
}

struct ReadsTheListFirst : AsShipped {
  static ModelBlock* read_list(ModelSpan& span, uint32_t* count) {
    ModelBlock* first = span.free_list_acquire();
    *count = span.carved - span.live_acquire();
    return first;
  }
};
TEST(SpanCountsModel, TheCountIsReadBeforeTheList) {
  EXPECT_EQ(problem_of<World<ReadsTheListFirst>>(), "counted blocks are not on the list");
}

struct ReleasesADetachedSpan : AsShipped {
  static bool may_release(bool) { return true; }
};
TEST(SpanCountsModel, ADetachedSpanIsNotReleased) {
  EXPECT_EQ(problem_of<World<ReleasesADetachedSpan>>(), "data race");
}

struct WritesTheCountdown : AsShipped {
  static void count_holes(ModelSpan& span) {
    store_relaxed(span.hole_blocks_, 1);
    store_relaxed(span.countdown, load_acquire(span.countdown) + 1);
  }
};
TEST(SpanCountsModel, OnlyTheOwnerWritesTheCountdown) {
  EXPECT_NE(problem_of<World<WritesTheCountdown>>(), "");
}

}  // namespace
}  // namespace seemalloc::pages

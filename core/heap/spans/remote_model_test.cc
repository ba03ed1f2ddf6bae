// Runs the code of remote_protocol.h in every interleaving, on a machine with weak memory.
//
// One span has two live blocks that two threads free, and a third that stays live. The owner
// drains, then ends: it drains, hands the span to the central list unless remote frees wait,
// becomes a zombie, and does so once more. With `claims`, the first thread has a heap of its own:
// it claims the span if it finds it without an owner, and drains its heap in the end. Broken
// variants of the code must fail, which shows that the test can fail.
#include "core/heap/spans/remote_protocol.h"

#include <gtest/gtest.h>

#include <array>

#include "core/base/model_machine_for_test.h"

namespace seemalloc::heap {
namespace {

// The counters of pending spans are estimates, and no part of the protocol.
struct NotCounted {
  void fetch_add(uint32_t, std::memory_order) {}
  void store(uint32_t, std::memory_order) {}
};

struct ModelSpan;
struct ModelHeap {
  ModelAtomic<ModelSpan*> pending{nullptr};
  NotCounted pending_count, complete_count;
  ModelAtomic<HeapState> state{HeapState::kActive};
  ModelLock slow_lock;
  Plain<bool> gave_span{false};  // the span has left the heap's lists
};
struct ModelSpan {
  ModelAtomic<uint64_t> remote{0};
  ModelAtomic<ModelHeap*> owner_;
  Plain<ModelSpan*> pending_next{nullptr};
  Plain<unsigned> freed{0};  // blocks on its free list, as bits

  explicit ModelSpan(ModelHeap* owner) : owner_(owner) {}
  ModelHeap* owner_acquire() const { return owner_.load(std::memory_order_acquire); }
  void set_owner(ModelHeap* owner) { owner_.store(owner, std::memory_order_release); }
  void clear_owner() { owner_.store(nullptr, std::memory_order_release); }
};

constexpr unsigned kFreers = 2;

// The steps as they ship. Variants replace some of them.
struct AsShipped {
  static void take_chains(ModelHeap& heap, auto taken) { take_pending_chains(heap, taken); }
  static void announce(ModelHeap& owner, ModelSpan* span, auto hand_on) {
    push_pending(owner, span);
    if (is_zombie(owner)) hand_on();
  }
  static bool put(ModelSpan* span) { return leave_owner(span); }
  static void claim(ModelSpan* span, ModelHeap* owner) { get_owner(span, owner); }
  static void end(ModelHeap& heap, auto release) {
    release();
    become_zombie(heap, release);
  }
};

template <class Steps, bool claims = false>
class World {
 public:
  static constexpr unsigned kThreads = kFreers + 1;

  void start(Model& model) {
    for (unsigned i = 0; i < kFreers; i++) {
      Model::Phases phases{[this, i] { free(i); }};
      if (claims && i == 0) phases.push_back([this] { drain_claimer(); });
      model.thread(phases, 1);
    }
    model.thread({[this] { drain(); }, [this] { end(); }}, 1);
    model.at_end = [this] { return at_end(); };
  }

 private:
  // Frees block i.
  void free(unsigned i) {
    contents_[i].write(i);  // the program's last write to the block
    auto free_unowned = [&] { return free_to_central(i); };
    auto extend_list = [&](uint64_t chain) {
      links_[i] = remote_first(chain);
      return pack_remote(&blocks_[i], remote_count(chain) + 1);
    };
    Published published = lengthen_chain(&span_, free_unowned, extend_list);
    if (published.before != 0) return;
    ModelHeap* owner = span_.owner_acquire();
    Model::current().check(owner == &heap_ || owner == &claimer_,
                           "the owner changed while remote frees waited");
    Steps::announce(*owner, &span_, [&] { hand_on(); });
  }
  void drain() {
    LockGuard guard(heap_.slow_lock);
    drain_locked(heap_);
  }
  void drain_claimer() {
    LockGuard guard(claimer_.slow_lock);
    drain_locked(claimer_);
  }
  void end() {
    LockGuard guard(heap_.slow_lock);
    Steps::end(heap_, [&] { release_locked(); });
  }
  std::string at_end() {
    uint64_t word = span_.remote.load();
    bool claimed = span_.owner_.load() == &claimer_;
    if (word != kUnowned && !claimed) return "the span stays with a thread that has ended";
    if (claimed && (remote_count(word) != 0) != (claimer_.pending.load() == &span_))
      return "a chain without a pending span";
    // What came after the last drain of the claimer waits for its next one.
    unsigned blocks =
        static_cast<unsigned>(__builtin_popcount(span_.freed.read())) + remote_count(word);
    return blocks == kFreers ? "" : "blocks are lost";
  }

  bool free_to_central(unsigned i) {
    if (claims && i == 0) {
      LockGuard slow(claimer_.slow_lock);
      LockGuard guard(central_);
      if (span_.remote.load(std::memory_order_relaxed) != kUnowned) return false;
      Steps::claim(&span_, &claimer_);
      take_back(i);
      return true;
    }
    LockGuard guard(central_);
    if (span_.remote.load(std::memory_order_relaxed) != kUnowned) return false;
    take_back(i);
    return true;
  }
  void take_back(unsigned i) {
    Model::current().check((span_.freed.read() & 1u << i) == 0, "a block is freed twice");
    contents_[i].write(0);  // a data race, unless the program's write is seen
    span_.freed.write(span_.freed.read() | 1u << i);
  }
  void drain_locked(ModelHeap& heap) {
    Steps::take_chains(heap, [&](ModelSpan* span, uint64_t chain) {
      Model::current().check(span == &span_ && chain != 0 && chain != kUnowned,
                             "a pending span has no chain");
      uint32_t left = remote_count(chain);
      for (const Block* block = remote_first(chain); block != nullptr; left--) {
        Model::current().check(left != 0, "a chain is longer than its count");
        unsigned i = static_cast<unsigned>(block - blocks_.data());
        take_back(i);
        block = links_[i];
      }
      Model::current().check(left == 0, "a chain is shorter than its count");
    });
  }
  void release_locked() {
    drain_locked(heap_);
    if (heap_.gave_span) return;
    LockGuard guard(central_);
    if (Steps::put(&span_)) heap_.gave_span = true;
  }
  void hand_on() {
    LockGuard guard(registry_);
    if (!is_zombie(heap_)) return;
    LockGuard slow(heap_.slow_lock);
    release_locked();
  }

  std::array<Block, kFreers> blocks_{};
  ModelHeap heap_, claimer_;
  ModelSpan span_{&heap_};
  ModelLock central_, registry_;
  std::array<Plain<unsigned>, kFreers> contents_;
  std::array<Plain<Block*>, kFreers> links_;
};

TEST(RemoteModel, EveryInterleavingReturnsEveryBlock) {
  auto inspect = [](const Model& model, const auto&) { EXPECT_GT(model.states(), 1000u); };
  EXPECT_EQ(explore<World<AsShipped>>([](Model&) {}, inspect), "");
  EXPECT_EQ((explore<World<AsShipped, true>>([](Model&) {}, inspect)), "");
}

// Pusher and owner both modify `pending`: the later one sees what the earlier one did before,
// already with acq_rel. A span leaves its owner under the central list's lock, which releases as
// well. All else is needed.
TEST(RemoteModel, EachOrderIsNeeded) {
  unsigned tried = 0;
  EXPECT_EQ((unneeded_orders<World<AsShipped, true>>("remote_protocol.h", &tried)),
            "push_pending cas: acq_rel is enough\n"
            "take_pending exchange: acq_rel is enough\n"
            "become_zombie store: acq_rel is enough\n"
            "become_zombie store: relaxed is enough\n"
            "is_zombie load: acq_rel is enough\n"
            "is_zombie load: relaxed is enough\n"
            "leave_owner cas: relaxed is enough\n");
  EXPECT_EQ(tried, 12u);
}

struct NoZombieCheck : AsShipped {
  static void announce(ModelHeap& owner, ModelSpan* span, auto) { push_pending(owner, span); }
};
TEST(RemoteModel, WithoutTheZombieCheckASpanIsLost) {
  EXPECT_EQ(problem_of<World<NoZombieCheck>>(), "the span stays with a thread that has ended");
}

struct ChecksBeforeItPushes : AsShipped {
  static void announce(ModelHeap& owner, ModelSpan* span, auto hand_on) {
    bool zombie = is_zombie(owner);
    push_pending(owner, span);
    if (zombie) hand_on();
  }
};
TEST(RemoteModel, AZombieCheckBeforeThePushIsTooEarly) {
  EXPECT_EQ(problem_of<World<ChecksBeforeItPushes>>(),
            "the span stays with a thread that has ended");
}

struct HandsOnWaitingBlocks : AsShipped {
  static bool put(ModelSpan* span) {
    span->remote.store(kUnowned, std::memory_order_release);
    span->clear_owner();
    return true;
  }
};
TEST(RemoteModel, HandingOnASpanWithWaitingBlocksLosesThem) {
  EXPECT_NE(problem_of<World<HandsOnWaitingBlocks>>(), "");
}

struct ReadsNextTooLate : AsShipped {
  static void take_chains(ModelHeap& heap, auto taken) {
    for (ModelSpan* span = take_pending(heap); span != nullptr; span = span->pending_next)
      taken(span, take_chain(span));
  }
};
TEST(RemoteModel, ASpanWhoseChainIsTakenMayBePushedAgain) {
  EXPECT_EQ(problem_of<World<ReadsNextTooLate>>(), "data race");
}

struct ClaimsTooEarly : AsShipped {
  static void claim(ModelSpan* span, ModelHeap* owner) {
    span->remote.store(0, std::memory_order_release);
    span->set_owner(owner);
  }
};
TEST(RemoteModel, AClaimedSpanHasItsOwnerBeforeRemoteFrees) {
  EXPECT_EQ((problem_of<World<ClaimsTooEarly, true>>()),
            "the owner changed while remote frees waited");
}

struct ReleasesFirst : AsShipped {
  static void end(ModelHeap& heap, auto release) {
    release();
    heap.state.store(HeapState::kZombie, std::memory_order_seq_cst);
  }
};
TEST(RemoteModel, AZombieDrainsOnceMore) { EXPECT_NE(problem_of<World<ReleasesFirst>>(), ""); }

}  // namespace
}  // namespace seemalloc::heap

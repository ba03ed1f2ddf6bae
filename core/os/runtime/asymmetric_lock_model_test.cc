// Runs the code of asymmetric_lock.h in every interleaving, on a machine with weak memory: one
// owner and two other threads, each entering twice. Broken variants of the code must fail, which
// shows that the test can fail.
#include "core/os/runtime/asymmetric_lock.h"

#include <gtest/gtest.h>

#include "core/base/model_machine_for_test.h"

namespace seemalloc {
namespace {

using ModelLock = BasicAsymmetricLock<ModelMachine>;

template <class L>
class World {
 public:
  static constexpr unsigned kThreads = 3;
  bool owner_got_in = false, other_got_in = false, owner_did_without = false;

  void start(Model& model) {
    model.has_fences = true;
    auto owner_enters = [this] {
      bool in = lock_.try_lock_owner();
      (in ? owner_got_in : owner_did_without) = true;
      if (!in) Model::current().end_body();
    };
    auto other_enters = [this] {
      bool in = lock_.try_lock_other();
      other_got_in |= in;
      if (!in) Model::current().end_body();
    };
    auto use = [this](unsigned thread) { return [this, thread] { section_.use(thread); }; };
    model.thread({owner_enters, use(0), [this] { lock_.unlock_owner(); }}, 2);
    for (unsigned other : {1u, 2u})
      model.thread({other_enters, use(other), [this] { lock_.unlock_other(); }}, 2);
  }

 private:
  L lock_;
  ModelSection section_;
};

TEST(AsymmetricLockModel, NeverTwoInAnyInterleaving) {
  auto inspect = [](const Model& model, const World<ModelLock>& world) {
    EXPECT_GT(model.states(), 1000u);
    EXPECT_TRUE(world.owner_got_in);
    EXPECT_TRUE(world.other_got_in);
    EXPECT_TRUE(world.owner_did_without);
  };
  EXPECT_EQ(explore<World<ModelLock>>([](Model&) {}, inspect), "");
}

// The fence after the exchange acquires as well; but ThreadSanitizer does not know of that fence.
TEST(AsymmetricLockModel, EachOrderAndTheFenceAreNeeded) {
  unsigned tried = 0;
  EXPECT_EQ(unneeded_orders<World<ModelLock>>("asymmetric_lock.h", &tried),
            "try_lock_other exchange: relaxed is enough\n");
  EXPECT_EQ(tried, 6u);
}

struct OwnerChecksFirst : ModelLock {
  bool try_lock_owner() {
    if (closed_.load(std::memory_order_acquire)) return false;
    inside_.store(true, std::memory_order_relaxed);
    return true;
  }
};
TEST(AsymmetricLockModel, AnOwnerThatChecksFirstIsNotSeen) {
  EXPECT_NE(problem_of<World<OwnerChecksFirst>>(), "");
}

struct ClosesInTwoSteps : ModelLock {
  bool try_lock_other() {
    if (closed_.load(std::memory_order_acquire)) return false;
    closed_.store(true, std::memory_order_relaxed);
    if (ModelMachine::fence_all_threads() && !inside_.load(std::memory_order_acquire)) return true;
    unlock_other();
    return false;
  }
};
TEST(AsymmetricLockModel, WithoutTheExchangeTwoOthersGetIn) {
  EXPECT_NE(problem_of<World<ClosesInTwoSteps>>(), "");
}

struct FencesFirst : ModelLock {
  bool try_lock_other() {
    if (!ModelMachine::fence_all_threads() || closed_.exchange(true, std::memory_order_acquire))
      return false;
    if (!inside_.load(std::memory_order_acquire)) return true;
    unlock_other();
    return false;
  }
};
TEST(AsymmetricLockModel, AFenceBeforeTheExchangeIsTooEarly) {
  EXPECT_NE(problem_of<World<FencesFirst>>(), "");
}

}  // namespace
}  // namespace seemalloc

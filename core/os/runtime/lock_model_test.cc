// Runs the code of lock.h and lock_slow.h in every interleaving, on a machine with weak memory:
// three threads, of
// which one enters a Lock twice. Broken variants of the code must fail, which shows that the test
// can fail.
#include "core/os/runtime/lock.h"

#include <gtest/gtest.h>

#include "core/base/model_machine_for_test.h"
#include "core/os/runtime/lock_slow.h"

namespace seemalloc {
namespace {

using ModelLock = BasicLock<ModelMachine>;
using ModelOwnerLock = BasicOwnerLock<ModelMachine>;

template <class L>
class World {
 public:
  static constexpr unsigned kThreads = 3;

  ~World() { locks_held = 0; }
  void start(Model& model) {
    for (unsigned thread : {0u, 1u, 2u}) {
      auto use = [this, thread] { section_.use(thread); };
      model.thread({[this] { lock_.lock(); }, use, [this] { lock_.unlock(); }},
                   thread == 0 ? kFirstEnters : 1u);
    }
    model.before_run = [] { locks_held = 0; };
    model.at_end = [this] {
      return section_.uses() == kFirstEnters + 2 ? "" : "a thread did not enter";
    };
  }

 private:
  static constexpr unsigned kFirstEnters = std::is_base_of_v<ModelLock, L> ? 2 : 1;

  L lock_;
  ModelSection section_;
};

template <class L>
void expect_correct() {
  auto inspect = [](const Model& model, const World<L>&) {
    EXPECT_GT(model.states(), 1000u);
    EXPECT_TRUE(model.a_thread_slept());
  };
  EXPECT_EQ(explore<World<L>>([](Model&) {}, inspect), "");
}
TEST(LockModel, OneThreadIsInAndNoneSleepsForEver) { expect_correct<ModelLock>(); }
TEST(LockModel, AnOwnersLockToo) { expect_correct<ModelOwnerLock>(); }

TEST(LockModel, EachOrderAndTheWakeAreNeeded) {
  unsigned tried = 0;
  EXPECT_EQ(unneeded_orders<World<ModelLock>>("lock.h", &tried), "");
  EXPECT_EQ(unneeded_orders<World<ModelLock>>("lock_slow.h", &tried), "");
  EXPECT_EQ(tried, 4u);
}

// A sleeper checks again after some time, so a wake that is missing is only a delay.
TEST(LockModel, EachOrderOfAnOwnersLockIsNeeded) {
  unsigned tried = 0;
  EXPECT_EQ(unneeded_orders<World<ModelOwnerLock>>("lock.h", &tried), "");
  EXPECT_EQ(unneeded_orders<World<ModelOwnerLock>>("lock_slow.h", &tried),
            "wake wake: relaxed is enough\n");
  EXPECT_EQ(tried, 4u);
}

struct OwnerLockThatIsNeverCheckedAgain : ModelOwnerLock {
  void lock() {
    if (!try_lock()) wait(owner_waits, 0);
  }
};
TEST(LockModel, SleepersOnAnOwnersLockHaveToCheckAgain) {
  EXPECT_EQ(problem_of<World<OwnerLockThatIsNeverCheckedAgain>>(), "a thread waits for ever");
}

struct ForgetsOthers : ModelLock {
  void lock() {
    if (try_lock()) return;
    count_held(+1);
    uint32_t free = 0;
    // Should be 2.
    while (!state_.compare_exchange_strong(free, 1, std::memory_order_acquire,
                                           std::memory_order_relaxed)) {
      if (state_.exchange(2, std::memory_order_acquire) == 0) return;
      ModelMachine::futex_wait(&state_, 2, 0);
      free = 0;
    }
  }
};
TEST(LockModel, AThreadThatHasSleptLeavesWordForOthers) {
  EXPECT_EQ(problem_of<World<ForgetsOthers>>(), "a thread waits for ever");
}

struct UnlocksInTwoSteps : ModelLock {
  void unlock() {
    bool sleeper = state_.load(std::memory_order_relaxed) == 2;
    state_.store(0, std::memory_order_release);
    if (sleeper) wake();
    count_held(-1);
  }
};
TEST(LockModel, ALockWithoutTimeoutNeedsAnExchangeToUnlock) {
  EXPECT_EQ(problem_of<World<UnlocksInTwoSteps>>(), "a thread waits for ever");
}

}  // namespace
}  // namespace seemalloc

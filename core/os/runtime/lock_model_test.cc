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

struct Seen {
  size_t states = 0;
  bool a_thread_slept = false;
};

template <class L>
std::string explore_and_see(const ModelSetUp& set_up, std::map<Model::Site, Model::Met>* sites,
                            Seen* seen) {
  constexpr unsigned kFirstEnters = std::is_base_of_v<ModelLock, L> ? 2 : 1;
  auto model = std::make_unique<Model>(3u);
  L lock;
  ModelSection section;
  for (unsigned thread : {0u, 1u, 2u}) {
    model->thread(
        {[&] { lock.lock(); }, [&, thread] { section.use(thread); }, [&] { lock.unlock(); }},
        thread == 0 ? kFirstEnters : 1u);
  }
  model->before_run = [] { locks_held = 0; };
  model->at_end = [&] {
    return section.uses() == kFirstEnters + 2 ? "" : "a thread did not enter";
  };
  set_up(*model);
  std::string problem = model->explore();
  locks_held = 0;
  if (seen != nullptr) *seen = {model->states(), model->a_thread_slept()};
  if (sites != nullptr) *sites = model->sites();
  return problem;
}
template <class L>
std::string explore(const ModelSetUp& set_up, std::map<Model::Site, Model::Met>* sites) {
  return explore_and_see<L>(set_up, sites, nullptr);
}
template <class L>
std::string problem_of() {
  std::string problem = explore<L>([](Model&) {}, nullptr);
  return problem.substr(0, problem.find('\n'));  // without the steps
}

template <class L>
void expect_correct() {
  Seen seen;
  EXPECT_EQ(explore_and_see<L>([](Model&) {}, nullptr, &seen), "");
  EXPECT_GT(seen.states, 1000u);
  EXPECT_TRUE(seen.a_thread_slept);
}
TEST(LockModel, OneThreadIsInAndNoneSleepsForEver) { expect_correct<ModelLock>(); }
TEST(LockModel, AnOwnersLockToo) { expect_correct<ModelOwnerLock>(); }

TEST(LockModel, EachOrderAndTheWakeAreNeeded) {
  unsigned tried = 0;
  EXPECT_EQ(unneeded_orders(explore<ModelLock>, "lock.h", &tried), "");
  EXPECT_EQ(unneeded_orders(explore<ModelLock>, "lock_slow.h", &tried), "");
  EXPECT_EQ(tried, 4u);
}

// A sleeper checks again after some time, so a wake that is missing is only a delay.
TEST(LockModel, EachOrderOfAnOwnersLockIsNeeded) {
  unsigned tried = 0;
  EXPECT_EQ(unneeded_orders(explore<ModelOwnerLock>, "lock.h", &tried), "");
  EXPECT_EQ(unneeded_orders(explore<ModelOwnerLock>, "lock_slow.h", &tried),
            "wake wake: relaxed is enough\n");
  EXPECT_EQ(tried, 4u);
}

struct OwnerLockThatIsNeverCheckedAgain : ModelOwnerLock {
  void lock() {
    if (!try_lock()) wait(owner_waits, 0);
  }
};
TEST(LockModel, SleepersOnAnOwnersLockHaveToCheckAgain) {
  EXPECT_EQ(problem_of<OwnerLockThatIsNeverCheckedAgain>(), "a thread waits for ever");
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
  EXPECT_EQ(problem_of<ForgetsOthers>(), "a thread waits for ever");
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
  EXPECT_EQ(problem_of<UnlocksInTwoSteps>(), "a thread waits for ever");
}

}  // namespace
}  // namespace seemalloc

// Runs the code of asymmetric_lock.h in every interleaving, on a machine with weak memory: one
// owner and two other threads, each entering twice. Broken variants of the code must fail, which
// shows that the test can fail.
#include "core/os/runtime/asymmetric_lock.h"

#include <gtest/gtest.h>

#include "core/base/model_machine_for_test.h"

namespace seemalloc {
namespace {

using ModelLock = BasicAsymmetricLock<ModelMachine>;

struct Seen {
  size_t states = 0;
  bool owner_got_in = false, other_got_in = false, owner_did_without = false;
};

template <class L>
std::string explore_and_see(const ModelSetUp& set_up, std::map<Model::Site, Model::Met>* sites,
                            Seen* seen) {
  auto model = std::make_unique<Model>(3u);
  L lock;
  ModelSection section;
  Seen met;
  auto owner_enters = [&] {
    bool in = lock.try_lock_owner();
    (in ? met.owner_got_in : met.owner_did_without) = true;
    if (!in) model->end_body();
  };
  model->thread({owner_enters, [&] { section.use(0); }, [&] { lock.unlock_owner(); }}, 2);
  for (unsigned other : {1u, 2u}) {
    auto enters = [&] {
      bool in = lock.try_lock_other();
      met.other_got_in |= in;
      if (!in) model->end_body();
    };
    model->thread({enters, [&, other] { section.use(other); }, [&] { lock.unlock_other(); }}, 2);
  }
  model->has_fences = true;
  set_up(*model);
  std::string problem = model->explore();
  met.states = model->states();
  if (seen != nullptr) *seen = met;
  if (sites != nullptr) *sites = model->sites();
  return problem;
}
template <class L>
std::string explore(const ModelSetUp& set_up, std::map<Model::Site, Model::Met>* sites) {
  return explore_and_see<L>(set_up, sites, nullptr);
}
template <class L>
std::string problem_of() {
  return explore_and_see<L>([](Model&) {}, nullptr, nullptr);
}

TEST(AsymmetricLockModel, NeverTwoInAnyInterleaving) {
  Seen seen;
  EXPECT_EQ(explore_and_see<ModelLock>([](Model&) {}, nullptr, &seen), "");
  EXPECT_GT(seen.states, 1000u);
  EXPECT_TRUE(seen.owner_got_in);
  EXPECT_TRUE(seen.other_got_in);
  EXPECT_TRUE(seen.owner_did_without);
}

// The fence after the exchange acquires as well; but ThreadSanitizer does not know of that fence.
TEST(AsymmetricLockModel, EachOrderAndTheFenceAreNeeded) {
  unsigned tried = 0;
  EXPECT_EQ(unneeded_orders(explore<ModelLock>, "asymmetric_lock.h", &tried),
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
  EXPECT_NE(problem_of<OwnerChecksFirst>(), "");
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
  EXPECT_NE(problem_of<ClosesInTwoSteps>(), "");
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
  EXPECT_NE(problem_of<FencesFirst>(), "");
}

}  // namespace
}  // namespace seemalloc

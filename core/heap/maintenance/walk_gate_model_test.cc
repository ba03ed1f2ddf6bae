// Runs the code of walk_gate.h in every interleaving, on a machine with weak memory: two workers,
// which change lists, and two walkers. Broken variants of the code must fail, which shows that the
// test can fail.
#include "core/heap/maintenance/walk_gate.h"

#include <gtest/gtest.h>

#include <array>

#include "core/base/model_machine_for_test.h"

namespace seemalloc::heap {
namespace {

struct ModelGate : BasicWalkGate<ModelMachine> {
  static void forget_this_thread() { own_state = {}; }
};

struct Seen {
  size_t states = 0;
  bool a_worker_did_without = false;
};

// Each worker changes a list of its own, which every walker reads: a data race, unless the gate
// keeps them apart.
template <class Gate>
std::string explore_and_see(const ModelSetUp& set_up, std::map<Model::Site, Model::Met>* sites,
                            Seen* seen) {
  auto model = std::make_unique<Model>(4u);
  Gate gate;
  std::array<Plain<unsigned>, 2> lists;
  Seen met;
  for (unsigned worker : {0u, 1u}) {
    auto work = [&, worker] {
      if (!gate.enter()) return void(met.a_worker_did_without = true);
      lists[worker].write(1);
      gate.leave();
    };
    model->thread({work}, worker == 0 ? 2 : 1);
  }
  auto walk = [&] {
    Model::current().check(gate.begin_walk(), "a walk did not wait");
    for (const auto& list : lists) list.read();
    gate.end_walk();
  };
  model->thread({walk}, 1);
  model->thread({walk}, 1);
  model->before_run = [] { Gate::forget_this_thread(); };
  set_up(*model);
  std::string problem = model->explore();
  Gate::forget_this_thread();
  met.states = model->states();
  if (seen != nullptr) *seen = met;
  if (sites != nullptr) *sites = model->sites();
  return problem;
}
template <class Gate>
std::string explore(const ModelSetUp& set_up, std::map<Model::Site, Model::Met>* sites) {
  return explore_and_see<Gate>(set_up, sites, nullptr);
}
template <class Gate>
std::string problem_of() {
  std::string problem = explore<Gate>([](Model&) {}, nullptr);
  return problem.substr(0, problem.find('\n'));  // without the steps
}

TEST(WalkGateModel, NothingIsChangedUnderAWalk) {
  Seen seen;
  EXPECT_EQ(explore_and_see<ModelGate>([](Model&) {}, nullptr, &seen), "");
  EXPECT_GT(seen.states, 1000u);
  EXPECT_TRUE(seen.a_worker_did_without);
}

// A worker that withdraws in enter() has changed nothing that it would have to release.
TEST(WalkGateModel, EachOrderIsNeeded) {
  unsigned tried = 0;
  EXPECT_EQ(unneeded_orders(explore<ModelGate>, "walk_gate.h", &tried),
            "enter add: relaxed is enough\n");
  EXPECT_EQ(tried, 11u);
}

struct WorkersReadFirst : ModelGate {
  bool enter() {
    if (walkers_.load(std::memory_order_seq_cst) != 0) return false;
    workers_.fetch_add(1, std::memory_order_seq_cst);
    own_state.works++;
    return true;
  }
};
TEST(WalkGateModel, WorkersAnnounceThemselvesFirst) {
  EXPECT_NE(problem_of<WorkersReadFirst>(), "");
}

struct WalkersReadFirst : ModelGate {
  bool begin_walk() {
    while (workers_.load(std::memory_order_seq_cst) != 0) ModelMachine::pause(1);
    walkers_.fetch_add(1, std::memory_order_seq_cst);
    own_state.walks++;
    return true;
  }
};
TEST(WalkGateModel, WalkersAnnounceThemselvesFirst) {
  EXPECT_NE(problem_of<WalkersReadFirst>(), "");
}

struct WorkersForgetToLeave : ModelGate {
  bool enter() {
    workers_.fetch_add(1, std::memory_order_seq_cst);
    if (walkers_.load(std::memory_order_seq_cst) != 0) return false;
    own_state.works++;
    return true;
  }
};
TEST(WalkGateModel, AWorkerThatDoesWithoutLeaves) {
  EXPECT_EQ(problem_of<WorkersForgetToLeave>(), "a thread waits for ever");
}

}  // namespace
}  // namespace seemalloc::heap

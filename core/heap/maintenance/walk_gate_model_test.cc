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

// Each worker changes a list of its own, which every walker reads: a data race, unless the gate
// keeps them apart.
template <class Gate>
class World {
 public:
  static constexpr unsigned kThreads = 4;
  bool a_worker_did_without = false;

  ~World() { Gate::forget_this_thread(); }
  void start(Model& model) {
    model.thread({[this] { work(0); }}, 2);
    model.thread({[this] { work(1); }}, 1);
    for (int walker = 0; walker < 2; walker++) model.thread({[this] { walk(); }}, 1);
    model.before_run = [] { Gate::forget_this_thread(); };
  }

 private:
  void work(unsigned worker) {
    if (!gate_.enter()) return void(a_worker_did_without = true);
    lists_[worker].write(1);
    gate_.leave();
  }
  void walk() {
    Model::current().check(gate_.begin_walk(), "a walk did not wait");
    for (const auto& list : lists_) list.read();
    gate_.end_walk();
  }

  Gate gate_;
  std::array<Plain<unsigned>, 2> lists_;
};

TEST(WalkGateModel, NothingIsChangedUnderAWalk) {
  auto inspect = [](const Model& model, const World<ModelGate>& world) {
    EXPECT_GT(model.states(), 1000u);
    EXPECT_TRUE(world.a_worker_did_without);
  };
  EXPECT_EQ(explore<World<ModelGate>>([](Model&) {}, inspect), "");
}

// A worker that withdraws in enter() has changed nothing that it would have to release.
TEST(WalkGateModel, EachOrderIsNeeded) {
  unsigned tried = 0;
  EXPECT_EQ(unneeded_orders<World<ModelGate>>("walk_gate.h", &tried),
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
  EXPECT_NE(problem_of<World<WorkersReadFirst>>(), "");
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
  EXPECT_NE(problem_of<World<WalkersReadFirst>>(), "");
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
  EXPECT_EQ(problem_of<World<WorkersForgetToLeave>>(), "a thread waits for ever");
}

}  // namespace
}  // namespace seemalloc::heap

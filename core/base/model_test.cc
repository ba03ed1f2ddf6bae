// The model itself: the outcomes of small programs whose possible outcomes are known (litmus
// tests), data races, threads that wait for ever.
#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <set>
#include <vector>

#include "core/base/model_for_test.h"
#include "core/base/model_machine_for_test.h"

namespace seemalloc {
namespace {

using Order = std::memory_order;
using Word = ModelAtomic<unsigned>;
using Outcome = std::vector<unsigned>;

// Runs the bodies, which write their results; returns the results of all interleavings.
struct Litmus {
  explicit Litmus(unsigned threads) : model(std::make_unique<Model>(threads)), x(0u), y(0u) {
    for (auto& result : results) result = std::make_unique<Plain<unsigned>>();
  }
  void thread(std::function<void()> body) { model->thread({std::move(body)}, 1); }
  std::set<Outcome> outcomes(size_t count) {
    std::set<Outcome> all;
    model->at_end = [&] {
      Outcome outcome;
      for (size_t i = 0; i < count; i++) outcome.push_back(results[i]->read());
      all.insert(outcome);
      return "";
    };
    EXPECT_EQ(model->explore(), "");
    return all;
  }
  std::unique_ptr<Model> model;
  Word x, y;
  std::array<std::unique_ptr<Plain<unsigned>>, 4> results;
};

std::set<Outcome> store_buffering(Order store, Order load, bool fence) {
  Litmus litmus(2);
  litmus.model->has_fences = true;
  litmus.thread([&] {
    litmus.x.store(1, store);
    litmus.results[0]->write(litmus.y.load(load));
  });
  litmus.thread([&] {
    litmus.y.store(1, store);
    if (fence) ModelMachine::fence_all_threads();
    litmus.results[1]->write(litmus.x.load(load));
  });
  return litmus.outcomes(2);
}
TEST(Model, AStoreMayBeSeenAfterALaterLoad) {
  std::set<Outcome> all{{0, 0}, {0, 1}, {1, 0}, {1, 1}}, ordered{{0, 1}, {1, 0}, {1, 1}};
  EXPECT_EQ(store_buffering(Order::relaxed, Order::relaxed, false), all);
  EXPECT_EQ(store_buffering(Order::release, Order::acquire, false), all);
  EXPECT_EQ(store_buffering(Order::seq_cst, Order::acquire, false), all);
  EXPECT_EQ(store_buffering(Order::seq_cst, Order::seq_cst, false), ordered);
  EXPECT_EQ(store_buffering(Order::relaxed, Order::relaxed, true), ordered);
}

TEST(Model, AStoreMayContinueARelease) {
  for (bool continues : {false, true}) {
    Litmus litmus(2);
    litmus.model->stores_continue_releases = continues;
    litmus.thread([&] {
      litmus.x.store(1, Order::relaxed);
      litmus.y.store(1, Order::release);
      litmus.y.store(2, Order::relaxed);
    });
    litmus.thread([&] {
      litmus.results[0]->write(litmus.y.load(Order::acquire));
      litmus.results[1]->write(litmus.x.load(Order::relaxed));
    });
    std::set<Outcome> outcomes = litmus.outcomes(2);
    EXPECT_EQ(outcomes.contains({2, 0}), !continues);
    EXPECT_TRUE(outcomes.contains({2, 1}));
  }
}

std::set<Outcome> message_passing(Order store, Order load) {
  Litmus litmus(2);
  litmus.thread([&] {
    litmus.x.store(1, Order::relaxed);
    litmus.y.store(1, store);
  });
  litmus.thread([&] {
    litmus.results[0]->write(litmus.y.load(load));
    litmus.results[1]->write(litmus.x.load(Order::relaxed));
  });
  return litmus.outcomes(2);
}
TEST(Model, AMessageNeedsReleaseAndAcquire) {
  std::set<Outcome> all{{0, 0}, {0, 1}, {1, 0}, {1, 1}}, ordered{{0, 0}, {0, 1}, {1, 1}};
  EXPECT_EQ(message_passing(Order::relaxed, Order::acquire), all);
  EXPECT_EQ(message_passing(Order::release, Order::relaxed), all);
  EXPECT_EQ(message_passing(Order::release, Order::acquire), ordered);
}

// A read-modify-write of a third thread, even a relaxed one, passes the message on; a store does
// not.
std::set<Outcome> message_by_way_of(bool modifies) {
  Litmus litmus(3);
  litmus.thread([&] {
    litmus.x.store(1, Order::relaxed);
    litmus.y.store(1, Order::release);
  });
  litmus.thread([&] {
    if (litmus.y.load(Order::relaxed) == 0) return;
    modifies ? void(litmus.y.fetch_add(1, Order::relaxed)) : litmus.y.store(2, Order::relaxed);
  });
  litmus.thread([&] {
    if (litmus.y.load(Order::acquire) == 2)
      litmus.results[0]->write(1 + litmus.x.load(Order::relaxed));
  });
  return litmus.outcomes(1);
}
TEST(Model, AReadModifyWriteContinuesAReleaseSequence) {
  EXPECT_EQ(message_by_way_of(true), (std::set<Outcome>{{0}, {2}}));
  EXPECT_EQ(message_by_way_of(false), (std::set<Outcome>{{0}, {1}, {2}}));
}

TEST(Model, AThreadNeverReadsBackInTime) {
  Litmus litmus(2);
  litmus.thread([&] {
    litmus.x.store(1, Order::relaxed);
    litmus.x.store(2, Order::relaxed);
  });
  litmus.thread([&] {
    litmus.results[0]->write(litmus.x.load(Order::relaxed));
    litmus.results[1]->write(litmus.x.load(Order::relaxed));
  });
  EXPECT_EQ(litmus.outcomes(2),
            (std::set<Outcome>{{0, 0}, {0, 1}, {0, 2}, {1, 1}, {1, 2}, {2, 2}}));
}

TEST(Model, ReadModifyWritesLoseNothing) {
  Litmus litmus(3);
  for (unsigned i : {0u, 1u, 2u}) {
    litmus.thread([&, i] {
      unsigned seen = litmus.x.load(Order::relaxed);
      while (!litmus.x.compare_exchange_weak(seen, seen + 1, Order::relaxed, Order::relaxed)) {
      }
      litmus.results[i]->write(seen);
    });
  }
  for (const Outcome& outcome : litmus.outcomes(3))
    EXPECT_EQ(std::set<unsigned>(outcome.begin(), outcome.end()).size(), 3u);
}

// Returns the problem of two threads, without its steps.
std::string problem_of(Model& model, std::function<void()> first, std::function<void()> second) {
  model.thread({std::move(first)}, 1);
  model.thread({std::move(second)}, 1);
  std::string problem = model.explore();
  return problem.substr(0, problem.find('\n'));
}
struct Two {
  std::unique_ptr<Model> model = std::make_unique<Model>(2u);
  Word flag;
  Plain<unsigned> data;
};

TEST(Model, FindsDataRaces) {
  auto race = [](bool first_writes, bool second_writes, Order store, Order load) {
    Two two;
    return problem_of(
        *two.model,
        [&] {
          first_writes ? two.data.write(1) : void(two.data.read());
          two.flag.store(1, store);
        },
        [&] {
          if (two.flag.load(load) == 1) second_writes ? two.data.write(2) : void(two.data.read());
        });
  };
  for (bool first : {false, true}) {
    for (bool second : {false, true}) {
      bool one_writes = first || second;
      EXPECT_EQ(race(first, second, Order::release, Order::acquire), "");
      EXPECT_EQ(race(first, second, Order::relaxed, Order::acquire), one_writes ? "data race" : "");
      EXPECT_EQ(race(first, second, Order::release, Order::relaxed), one_writes ? "data race" : "");
    }
  }
}

TEST(Model, FindsThreadsThatWaitForEver) {
  auto wait = [](bool wakes, uint64_t timeout_ns, bool pauses) {
    Two two;
    return problem_of(
        *two.model,
        [&] {
          while (two.flag.load(Order::relaxed) == 0)
            pauses ? ModelMachine::pause(1)
                   : void(ModelMachine::futex_wait(&two.flag, 0, timeout_ns));
        },
        [&] {
          if (!pauses || wakes) two.flag.store(1, Order::relaxed);
          if (wakes) ModelMachine::futex_wake(&two.flag, 1);
        });
  };
  EXPECT_EQ(wait(true, 0, false), "");
  EXPECT_EQ(wait(false, 0, false), "a thread waits for ever");
  EXPECT_EQ(wait(false, 1, false), "");
  EXPECT_EQ(wait(true, 0, true), "");
  EXPECT_EQ(wait(false, 0, true), "a thread waits for ever");
}

}  // namespace
}  // namespace seemalloc

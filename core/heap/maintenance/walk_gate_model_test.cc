// The protocol of walk_gate.h as a small state machine on a machine with store buffers; the test explores every
// interleaving of its steps. There are two workers, which change lists, and two walkers; each enters twice. Variants
// with a known mistake must fail, which shows that the test can.
#include <gtest/gtest.h>

#include <array>

#include "core/base/state_search_for_test.h"
#include "core/base/store_buffer_for_test.h"

namespace seemalloc {
namespace {

constexpr int kWorkers = 2, kThreads = 4, kVisits = 2;
enum Place { kFirst, kSecond, kIn, kDone };  // two steps in either order, the announcement and the check of the others;
                                             // then inside
using Variable = int;  // one word per thread; the sum of a side's words is workers_ or walkers_

struct State {
  std::array<int, kThreads> memory{};
  std::array<StoreBuffer<Variable, int>, kThreads> buffers;
  std::array<Place, kThreads> at{};
  std::array<int, kThreads> visits{};
  auto operator<=>(const State&) const = default;
};

bool works(int i) { return i < kWorkers; }

struct Variant {
  bool fenced = true;              // the announcement is visible before the check
  bool workers_say_first = true;   // else they check before they announce themselves
  bool walkers_say_first = true;
};

// explore(): returns "" if no path has a walker and a worker inside at once, or ends before all are done.
class Explorer : public StateSearch<State> {
 public:
  explicit Explorer(Variant variant) : variant_(variant) {}
  bool somebody_did_without() const { return did_without_; }
  bool somebody_waited() const { return waited_; }

 private:
  void go_on(const State& s) override {
    int working = 0, walking = 0, done = 0;
    for (int i = 0; i < kThreads; i++) {
      (works(i) ? working : walking) += s.at[i] == kIn;
      done += s.at[i] == kDone;
    }
    if (working != 0 && walking != 0) {
      problem_ = "changed under a walk";
      return;
    }
    bool goes_on = false;
    for (int i = 0; i < kThreads; i++) {
      State next = s;
      if (next.buffers[i].drain_one(next.memory)) {
        goes_on = true;
        visit(next);
      }
      if (s.at[i] != kDone) goes_on |= step(s, i);
    }
    if (!goes_on && done != kThreads) problem_ = "nobody can go on";
  }

  bool says_first(int i) const { return works(i) ? variant_.workers_say_first : variant_.walkers_say_first; }

  void say(State& s, int i) {
    s.buffers[i].store(i, 1);
    if (variant_.fenced) s.buffers[i].drain(s.memory);
  }

  bool others_are_there(const State& s, int i) const {
    int there = 0;
    for (int other = 0; other < kThreads; other++) {
      if (works(other) != works(i)) there += s.buffers[i].load(s.memory, other);
    }
    return there != 0;
  }

  void leave(State& s, int i) {
    s.buffers[i].store(i, 0);
    s.at[i] = ++s.visits[i] == kVisits ? kDone : kFirst;
  }

  // Returns false if it has to wait for others.
  bool step(State s, int i) {
    if (s.at[i] == kIn) {
      leave(s, i);
    } else {
      bool says = (s.at[i] == kFirst) == says_first(i);
      if (!says && others_are_there(s, i)) return turn_away(s, i);
      if (says) say(s, i);
      s.at[i] = s.at[i] == kFirst ? kSecond : kIn;
    }
    visit(s);
    return true;
  }

  bool turn_away(State s, int i) {
    if (!works(i)) {
      waited_ = true;
      return false;
    }
    did_without_ = true;
    leave(s, i);
    visit(s);
    return true;
  }

  Variant variant_;
  bool did_without_ = false, waited_ = false;
};

TEST(WalkGateModel, NothingIsChangedUnderAWalk) {
  Explorer explorer({});
  EXPECT_EQ(explorer.explore(), "");
  EXPECT_GT(explorer.states(), 1000u);
  EXPECT_TRUE(explorer.somebody_did_without());
  EXPECT_TRUE(explorer.somebody_waited());
}

void expect_problem(Variant variant) {
  Explorer explorer(variant);
  EXPECT_EQ(explorer.explore(), "changed under a walk");
}

TEST(WalkGateModel, WhatIsSaidHasToBeSeenBeforeTheLook) { expect_problem({.fenced = false}); }
TEST(WalkGateModel, WorkersSayFirst) { expect_problem({.workers_say_first = false}); }
TEST(WalkGateModel, WalkersSayFirst) { expect_problem({.walkers_say_first = false}); }

}  // namespace
}  // namespace seemalloc

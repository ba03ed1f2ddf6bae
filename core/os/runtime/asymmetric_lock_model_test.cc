// A model of AsymmetricLock (asymmetric_lock.h) on a machine with store buffers, and every interleaving of its steps:
// one owner, two other threads, each entering twice. A store waits in its thread's buffer until it drains, at any time;
// an exchange and a membarrier empty buffers immediately. Variants with a known mistake must fail, which shows that the
// test can fail.
#include <gtest/gtest.h>

#include <array>

#include "core/base/state_search_for_test.h"
#include "core/base/store_buffer_for_test.h"

namespace seemalloc {
namespace {

constexpr int kOthers = 2, kVisits = 2, kDone = 100;
enum Variable { kInside, kClosed };

struct State {
  std::array<bool, 2> memory{};                     // inside_, closed_
  StoreBuffer<Variable, bool> owners;
  std::array<StoreBuffer<Variable, bool>, kOthers> others;
  int owner = 0, owner_visits = 0;                  // program counters
  std::array<int, kOthers> other{}, other_visits{};
  int in = 0;                                       // threads in the critical section
  auto operator<=>(const State&) const = default;
};

struct Variant {
  bool membarrier = true;      // the other thread drains the owner's buffer before it reads inside_
  bool exchange = true;        // closing is one atomic step
  bool owner_looks_after = true;  // the owner sets inside_ before it reads closed_
};

// explore() returns an empty string when no path has two threads in the critical section.
class Explorer : public StateSearch<State> {
 public:
  explicit Explorer(Variant variant) : variant_(variant) {}
  bool owner_got_in() const { return owner_got_in_; }
  bool other_got_in() const { return other_got_in_; }

 private:
  void go_on(const State& s) override {
    if (s.in > 1) {
      problem_ = "two threads are in";
      return;
    }
    drain_one(s);
    if (s.owner != kDone) step_owner(s);
    for (int i = 0; i < kOthers; i++) {
      if (s.other[i] != kDone) step_other(s, i);
    }
  }

  void drain_one(const State& s) {
    for (int i = -1; i < kOthers; i++) {
      State next = s;
      if ((i < 0 ? next.owners : next.others[i]).drain_one(next.memory)) visit(next);
    }
  }

  void step_owner(State s) {
    switch (s.owner) {
      case 0:  // inside_ = true; in the wrong order, only after reading closed_
        if (!variant_.owner_looks_after) {
          s.owner = s.owners.load(s.memory, kClosed) ? 3 : 4;
          return visit(s);
        }
        s.owners.store(kInside, true);
        s.owner = 1;
        return visit(s);
      case 1:  // closed_?
        if (s.owners.load(s.memory, kClosed)) {
          s.owners.store(kInside, false);
          s.owner = 3;
        } else {
          s.in++;
          owner_got_in_ = true;
          s.owner = 2;
        }
        return visit(s);
      case 2:  // leave: inside_ = false
        s.in--;
        s.owners.store(kInside, false);
        s.owner = 3;
        return visit(s);
      case 3:
        s.owner = ++s.owner_visits == kVisits ? kDone : 0;
        return visit(s);
      case 4:
        s.owners.store(kInside, true);
        s.in++;
        s.owner = 2;
        return visit(s);
    }
  }

  void step_other(State s, int i) {
    auto& buffer = s.others[i];
    switch (s.other[i]) {
      case 0:  // closed_.exchange(true); without the exchange: a load, later a store
        if (variant_.exchange) buffer.drain(s.memory);
        if (buffer.load(s.memory, kClosed)) {
          s.other[i] = 5;
        } else if (variant_.exchange) {
          s.memory[kClosed] = true;
          s.other[i] = 2;
        } else {
          s.other[i] = 1;
        }
        return visit(s);
      case 1:
        buffer.store(kClosed, true);
        s.other[i] = 2;
        return visit(s);
      case 2:  // membarrier: every thread's buffer
        if (variant_.membarrier) {
          s.owners.drain(s.memory);
          for (auto& one : s.others) one.drain(s.memory);
        }
        s.other[i] = 3;
        return visit(s);
      case 3:  // inside_?
        if (buffer.load(s.memory, kInside)) {
          buffer.store(kClosed, false);
          s.other[i] = 5;
        } else {
          s.in++;
          other_got_in_ = true;
          s.other[i] = 4;
        }
        return visit(s);
      case 4:  // leave: closed_ = false
        s.in--;
        buffer.store(kClosed, false);
        s.other[i] = 5;
        return visit(s);
      case 5:
        s.other[i] = ++s.other_visits[i] == kVisits ? kDone : 0;
        return visit(s);
    }
  }

  Variant variant_;
  bool owner_got_in_ = false, other_got_in_ = false;
};

TEST(AsymmetricLockModel, NeverTwoInAnyInterleaving) {
  Explorer explorer({});
  EXPECT_EQ(explorer.explore(), "");
  EXPECT_GT(explorer.states(), 1000u);
  EXPECT_TRUE(explorer.owner_got_in());
  EXPECT_TRUE(explorer.other_got_in());
}

TEST(AsymmetricLockModel, WithoutTheMembarrierBothGetIn) { EXPECT_NE(Explorer({.membarrier = false}).explore(), ""); }

TEST(AsymmetricLockModel, WithoutTheExchangeTwoOthersGetIn) { EXPECT_NE(Explorer({.exchange = false}).explore(), ""); }

TEST(AsymmetricLockModel, AnOwnerThatLooksFirstIsNotSeen) {
  EXPECT_NE(Explorer({.owner_looks_after = false}).explore(), "");
}

}  // namespace
}  // namespace seemalloc

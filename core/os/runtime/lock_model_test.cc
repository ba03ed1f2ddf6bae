// A model of Lock and OwnerLock (lock.h) on a machine with store buffers, and every interleaving of its steps: three
// threads, each entering twice. A futex call of the kernel is one step, which empties the caller's buffer. Variants
// with a known mistake must fail, which shows that the test can fail.
#include <gtest/gtest.h>

#include <array>

#include "core/base/state_search_for_test.h"
#include "core/base/store_buffer_for_test.h"

namespace seemalloc {
namespace {

constexpr int kThreads = 3, kVisits = 2;
enum Variable { kWord };
enum Place { kTry, kExchange, kSleep, kAsleep, kIn, kStore, kWake, kOut, kDone };

struct State {
  std::array<int, 1> memory{};  // state_: 0 free, 1 held, 2 held and a thread may be sleeping
  std::array<StoreBuffer<Variable, int>, kThreads> buffers;
  std::array<Place, kThreads> at{};
  std::array<int, kThreads> visits{};
  std::array<bool, kThreads> wakes{};  // read a 2 when it unlocked
  int in = 0;
  auto operator<=>(const State&) const = default;
};

struct Variant {
  bool exchange_unlocks = false;  // Lock; false: OwnerLock, a load and a store
  bool times_out = false;         // a sleeper checks again
  bool slow_leaves_two = true;    // after a sleep, a thread takes the lock as one that others may wait for
  bool wakes = true;
};
constexpr Variant kLock{.exchange_unlocks = true}, kOwnerLock{.times_out = true};

// explore() returns an empty string when no path has two threads in the critical section, or one that sleeps forever.
class Explorer : public StateSearch<State> {
 public:
  explicit Explorer(Variant variant) : variant_(variant) {}
  bool somebody_slept() const { return somebody_slept_; }

 private:
  void go_on(const State& s) override {
    if (s.in > 1) {
      problem_ = "two threads are in";
      return;
    }
    bool goes_on = false, sleeps = false;
    for (int i = 0; i < kThreads; i++) {
      State next = s;
      if (next.buffers[i].drain_one(next.memory)) {
        goes_on = true;
        visit(next);
      }
      sleeps |= s.at[i] == kAsleep;
      if (s.at[i] == kDone || (s.at[i] == kAsleep && !variant_.times_out)) continue;
      goes_on = true;
      step(s, i);
    }
    if (sleeps && !goes_on) problem_ = "a thread sleeps for ever";
  }

  void step(State s, int i) {
    auto& buffer = s.buffers[i];
    Place& at = s.at[i];
    switch (at) {
      case kTry:  // compare_exchange(0, 1)
        buffer.drain(s.memory);
        at = s.memory[kWord] == 0 ? kIn : kExchange;
        if (at == kIn) s.memory[kWord] = 1, s.in++;
        return visit(s);
      case kExchange:  // exchange(2)
        buffer.drain(s.memory);
        at = s.memory[kWord] == 0 ? kIn : kSleep;
        if (at == kIn) s.in++;
        s.memory[kWord] = at == kIn && !variant_.slow_leaves_two ? 1 : 2;
        return visit(s);
      case kSleep:  // futex_wait(2)
        buffer.drain(s.memory);
        at = s.memory[kWord] == 2 ? kAsleep : kExchange;
        somebody_slept_ |= at == kAsleep;
        return visit(s);
      case kAsleep:
        at = kExchange;
        return visit(s);
      case kIn:
        s.in--;
        if (variant_.exchange_unlocks) {
          buffer.drain(s.memory);
          s.wakes[i] = s.memory[kWord] == 2;
          s.memory[kWord] = 0;
          at = kWake;
        } else {
          s.wakes[i] = buffer.load(s.memory, kWord) == 2;
          at = kStore;
        }
        return visit(s);
      case kStore:
        buffer.store(kWord, 0);
        at = kWake;
        return visit(s);
      case kWake: {
        bool wakes = s.wakes[i] && variant_.wakes, somebody = false;
        s.wakes[i] = false;
        at = kOut;
        if (wakes) buffer.drain(s.memory);
        for (int other = 0; wakes && other < kThreads; other++) {
          if (s.at[other] != kAsleep) continue;
          somebody = true;
          State next = s;
          next.at[other] = kExchange;
          visit(next);
        }
        return somebody ? void() : visit(s);
      }
      case kOut:
        at = ++s.visits[i] == kVisits ? kDone : kTry;
        return visit(s);
      case kDone:
        return;
    }
  }

  Variant variant_;
  bool somebody_slept_ = false;
};

void expect_problem(Variant variant, const char* problem) {
  Explorer explorer(variant);
  EXPECT_EQ(explorer.explore(), problem);
}

TEST(LockModel, OneIsInAndNobodySleepsForEver) {
  for (Variant variant : {kLock, kOwnerLock}) {
    Explorer explorer(variant);
    EXPECT_EQ(explorer.explore(), "");
    EXPECT_GT(explorer.states(), 1000u);
    EXPECT_TRUE(explorer.somebody_slept());
  }
}

TEST(LockModel, TheOwnersLockHasToLookAgain) {
  Variant variant = kOwnerLock;
  variant.times_out = false;
  expect_problem(variant, "a thread sleeps for ever");
}

TEST(LockModel, WhoHasSleptLeavesWordForOthers) {
  Variant variant = kLock;
  variant.slow_leaves_two = false;
  expect_problem(variant, "a thread sleeps for ever");
}

TEST(LockModel, SleepersAreWoken) {
  Variant variant = kLock;
  variant.wakes = false;
  expect_problem(variant, "a thread sleeps for ever");
}

}  // namespace
}  // namespace seemalloc

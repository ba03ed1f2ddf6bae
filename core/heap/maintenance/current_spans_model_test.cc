// Taking the current span from a thread that sleeps (current_spans.h), as a small state machine on
// a machine with store buffers; the test explores every interleaving of its steps.
//
// The owner pops its thread free list to the end. Then it takes the freed blocks: by
// refill_from_local_frees while it may, else by a refill under the heap's lock; and so on. The
// purger clears `local_refill_spans`, fences, detaches, and then has the span's free list to
// itself. A store waits in its thread's buffer until it drains, at any time; the lock and a
// membarrier empty the buffers. Variants with a known mistake must fail, which shows that the test
// can.
#include <gtest/gtest.h>

#include <array>

#include "core/base/state_search_for_test.h"
#include "core/base/store_buffer_for_test.h"

namespace seemalloc::heap {
namespace {

// The thread free list's length, ready[c], and the lengths of two spans' local free lists; the
// second span is the next one.
enum Variable { kList, kReady, kFree, kFreeOfNext, kVariables };
constexpr int kDone = 100, kPops = 7;

struct State {
  std::array<int, kVariables> memory{1, 1, 2, 2};
  StoreBuffer<Variable, int> owners, purgers;
  bool locked = false;
  bool next_is_current = false;  // the span that the owner allocates from; under the lock
  int owner = 0, pops = 0, taken = 0;
  // Between the load of `local_refill_spans` and the store that ends refill_from_local_frees.
  bool taking = false;
  bool taking_next = false;  // from the other span
  int purger = 0;
  bool purging = false;
  auto operator<=>(const State&) const = default;
};

struct Variant {
  bool fence = true;  // empties every thread's buffer after `local_refill_spans` is cleared
  bool list_must_not_end = true;  // a class whose thread free list is empty is left alone
  bool looks_after = true;        // reads the list after the fence
  // refill_from_local_frees stores the list after it has emptied the span's.
  bool list_last = true;
};

// explore(): returns "" if no path has both threads at the span's free list, or leaves the purger
// with an old one.
class Explorer : public StateSearch<State> {
 public:
  explicit Explorer(Variant variant) : variant_(variant) {}
  bool purged() const { return purged_; }
  bool gave_up() const { return gave_up_; }

 private:
  void expand(const State& s) override {
    if (s.purging && s.taking && !s.taking_next) {
      problem_ = "both are at the span's free list";
      return;
    }
    drain_one(s);
    if (s.owner != kDone) step_owner(s);
    if (s.purger != kDone) step_purger(s);
  }

  void drain_one(const State& s) {
    for (bool owners : {true, false}) {
      State next = s;
      if ((owners ? next.owners : next.purgers).drain_one(next.memory)) visit(next);
    }
  }

  void step_owner(State s) {
    Variable free = s.taking_next ? kFreeOfNext : kFree;
    switch (s.owner) {
      case 0: {  // malloc
        if (s.pops == kPops) {
          s.owner = kDone;
          return visit(s);
        }
        int list = s.owners.load(s.memory, kList);
        if (list != 0) {
          s.pops++;
          s.owners.store(kList, list - 1);
        } else {
          s.owner = 1;
        }
        return visit(s);
      }
      case 1:  // refill_from_local_frees: reads ready
        s.taking = s.owners.load(s.memory, kReady) != 0;
        s.taking_next = s.taking && s.next_is_current;  // ready[c] is the current span
        s.owner = s.taking ? 2 : 5;
        return visit(s);
      case 2:  // its free list
        s.taken = s.owners.load(s.memory, free);
        if (s.taken == 0) {
          s.taking = false;
          s.owner = 5;
        } else {
          s.owner = 3;
        }
        return visit(s);
      case 3:  // … becomes the thread free list, less the block that is returned at once
        if (variant_.list_last) {
          s.owners.store(free, 0);
        } else {
          s.owners.store(kList, s.taken - 1);
        }
        s.owner = 4;
        return visit(s);
      case 4:
        if (variant_.list_last) {
          s.owners.store(kList, s.taken - 1);
        } else {
          s.owners.store(free, 0);
        }
        s.pops++;
        s.taking = false;
        s.owner = s.pops >= kPops ? kDone : 0;
        return visit(s);
      case 5:  // refill: the lock
        if (s.locked) return;
        s.owners.drain(s.memory);
        s.locked = true;
        s.owner = 6;
        return visit(s);
      case 6: {  // from the current span, or the next one if that has been taken or used up
        s.taking_next = s.next_is_current;
        Variable from = s.taking_next ? kFreeOfNext : kFree;
        int count = s.owners.load(s.memory, from);
        s.owners.store(from, 0);
        s.owners.store(kList, count);
        s.owners.store(kReady, 1);
        if (count == 0) s.pops = kPops;  // used up: enough
        s.owners.drain(s.memory);
        s.locked = false;
        s.owner = 0;
        return visit(s);
      }
    }
  }

  void step_purger(State s) {
    switch (s.purger) {
      case 0:  // clear ready, under the lock
        if (s.locked) return;
        if (!variant_.looks_after && s.purgers.load(s.memory, kList) == 0) {
          gave_up_ = true;
          s.purger = kDone;
          return visit(s);
        }
        s.purgers.store(kReady, 0);
        s.purger = 1;
        return visit(s);
      case 1:  // membarrier: empties every thread's buffer. Unlocking has emptied ours.
        s.purgers.drain(s.memory);
        if (variant_.fence) s.owners.drain(s.memory);
        s.purger = 2;
        return visit(s);
      case 2:  // detach, under the lock
        if (s.locked) return;
        if (s.purgers.load(s.memory, kReady) != 0 ||
            (variant_.list_must_not_end && variant_.looks_after &&
             s.purgers.load(s.memory, kList) == 0)) {
          gave_up_ = true;
          s.purger = kDone;
          return visit(s);
        }
        s.next_is_current = true;
        s.purging = true;
        s.purger = 3;
        return visit(s);
      case 3:  // reads the free list, which is its own now
        if (s.owners.has(kFree) && problem_.empty())
          problem_ = "the list that is read is not the last one";
        purged_ = true;
        s.purger = kDone;
        return visit(s);
    }
  }

  Variant variant_;
  bool purged_ = false, gave_up_ = false;
};

TEST(CurrentSpansModel, NeverBothAtTheListInAnyInterleaving) {
  Explorer explorer({});
  EXPECT_EQ(explorer.explore(), "");
  EXPECT_GT(explorer.states(), 300u);
  EXPECT_TRUE(explorer.purged());
  EXPECT_TRUE(explorer.gave_up());
}

TEST(CurrentSpansModel, WithoutTheFenceTheOwnerIsNotSeen) {
  EXPECT_NE(Explorer({.fence = false}).explore(), "");
}

TEST(CurrentSpansModel, WhereTheListHasEndedTheOwnerMayBeAnywhere) {
  EXPECT_NE(Explorer({.list_must_not_end = false}).explore(), "");
}

TEST(CurrentSpansModel, AListThatIsSeenBeforeTheFenceHasEndedByThen) {
  EXPECT_NE(Explorer({.looks_after = false}).explore(), "");
}

TEST(CurrentSpansModel, AListStoredTooSoonHidesItsOwner) {
  EXPECT_NE(Explorer({.list_last = false}).explore(), "");
}

}  // namespace
}  // namespace seemalloc::heap

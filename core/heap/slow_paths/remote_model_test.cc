// The remote-free protocol (remote.h) as a small state machine; the test explores every interleaving of its steps.
//
// There is one span with two live blocks. Two threads free one each. The owner drains, then ends (zombie, drain, hand
// to the central list). Each step below is one atomic access of the code. Variants with a known mistake must fail,
// which shows that the test can.
#include <gtest/gtest.h>

#include <array>
#include <string>

#include "core/base/state_search_for_test.h"
#include "core/heap/spans/parcel.h"

namespace {

enum Word : int { kEmpty = 0, kUnowned = -1 };  // positive: number of blocks waiting

struct State {
  int word = kEmpty;
  bool pending = false;   // the span is on the owner's pending stack
  bool zombie = false;
  bool central = false;   // the span is in the central list
  int returned = 0;       // blocks back on the span's free list
  std::array<int, 2> freer{0, 0};     // program counters
  std::array<int, 2> seen{0, 0};      // the word that a freer has read
  int owner = 0;
  int drained = 0;        // blocks that the owner (or a helper) has taken
  auto operator<=>(const State&) const = default;
};

struct Variant {
  bool check_zombie_after_push = true;
  bool refuse_waiting_spans = true;  // central_put: CAS from 0 only
};

// explore(): returns "" if every path ends with both blocks returned and the span in the central list.
class Explorer : public seemalloc::StateSearch<State> {
 public:
  explicit Explorer(Variant variant) : variant_(variant) {}

 private:
  static constexpr int kDone = 100;

  void go_on(const State& s) override {
    bool moved = false;
    for (int i = 0; i < 2; i++) {
      if (s.freer[i] == kDone) continue;
      moved = true;
      step_freer(s, i);
    }
    if (s.owner != kDone) {
      moved = true;
      step_owner(s);
    }
    if (moved) return;
    if (s.returned != 2) problem_ = "blocks lost: " + std::to_string(s.returned) + " of 2 came back";
    if (!s.central) problem_ = "the span stays with a thread that has ended";
  }

  void step_freer(State s, int i) {
    switch (s.freer[i]) {
      case 0:  // load the word
        s.seen[i] = s.word;
        s.freer[i] = s.word == kUnowned ? 4 : 1;
        return visit(s);
      case 1:  // CAS: one more block
        if (s.word != s.seen[i]) {
          s.freer[i] = 0;
          return visit(s);
        }
        s.word++;
        s.freer[i] = s.seen[i] == kEmpty ? 2 : kDone;
        return visit(s);
      case 2:  // push on pending
        s.pending = true;
        s.freer[i] = variant_.check_zombie_after_push ? 3 : kDone;
        return visit(s);
      case 3:  // the owner has ended: hand the span on for it (one lock around all of it)
        if (s.zombie) hand_on(s);
        s.freer[i] = kDone;
        return visit(s);
      case 4:  // under the central lock
        if (s.word == kUnowned) {
          s.returned++;
          s.freer[i] = kDone;
        } else {
          s.freer[i] = 0;
        }
        return visit(s);
    }
  }

  void drain(State& s) {
    if (!s.pending) return;
    s.pending = false;
    s.returned += s.word;
    s.word = kEmpty;
  }
  void put(State& s) {
    if (s.central) return;
    if (s.word == kEmpty || !variant_.refuse_waiting_spans) {
      s.word = kUnowned;
      s.central = true;
    }
  }
  void hand_on(State& s) {
    drain(s);
    put(s);
  }

  void step_owner(State s) {
    switch (s.owner) {
      case 0:  // exchange the pending stack
        s.owner = s.pending ? 1 : 2;
        s.pending = false;
        return visit(s);
      case 1:  // exchange the span's word
        s.drained = s.word;
        s.word = kEmpty;
        s.returned += s.drained;
        s.owner = 2;
        return visit(s);
      case 2:  // central_put
        put(s);
        s.owner = s.central ? kDone : 3;
        return visit(s);
      case 3:  // state = zombie
        s.zombie = true;
        s.owner = 4;
        return visit(s);
      case 4:  // once more
        hand_on(s);
        s.owner = kDone;
        return visit(s);
    }
  }

  Variant variant_;
};

TEST(RemoteModel, EveryInterleavingReturnsEveryBlock) {
  Explorer explorer({});
  EXPECT_EQ(explorer.explore(), "");
  EXPECT_GT(explorer.states(), 100u);
}

TEST(RemoteModel, WithoutTheZombieCheckASpanIsLost) {
  EXPECT_NE(Explorer({.check_zombie_after_push = false}).explore(), "");
}

TEST(RemoteModel, HandingOnASpanWithWaitingBlocksLosesThem) {
  EXPECT_NE(Explorer({.refuse_waiting_spans = false}).explore(), "");
}

}  // namespace

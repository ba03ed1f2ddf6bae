// The purge of holes (holes.h) while the owner keeps working, as a small state machine; the test
// explores every interleaving of its steps.
//
// There is one available span. Blocks 0 and 4 are live; 1, 2 and 3 are on the free list in this
// order. 0 and 3 share a page. The owner frees block 0, store by store as free() does, then
// allocates all blocks and writes to them. Another thread's free of block 4 reaches the span
// through the owner. The purger detaches, reads, unlinks, purges and reattaches. Variants with a
// known mistake must fail, which shows that the test can.
#include <gtest/gtest.h>

#include <array>
#include <string>

#include "core/base/state_search_for_test.h"

namespace {

constexpr int kBlocks = 5, kNone = -1, kDone = 100;
constexpr int kPageOf[kBlocks] = {0, 1, 2, 0, 3};
enum ScanPosition : int { kAvailable, kCurrent, kDetached, kGivenBack };

struct State {
  std::array<int, kBlocks> next{kNone, 2, 3, kNone, kNone};
  int head = 1;
  int countdown = 2, bias = 0;  // 0 and 4 are live
  ScanPosition place = kAvailable;
  bool held = false;               // the heap's lock
  int holes = 0, hole_blocks = 0;  // pages as bits
  // Blocks that are live, and blocks that were written to; one bit per block. Purging a page loses
  // its contents.
  int has = 1 << 0 | 1 << 4, written = 1 << 0 | 1 << 4;
  bool remote = false;  // block 4 waits for the owner
  int owner = 0, other = 0, purger = 0;
  int owner_old = kNone, owner_count = 0;
  // Read by the purger; bits by block.
  int first = kNone, expected = 0, at = kNone, listed = 0, found = 0;
  int purging = 0;  // pages
  int seen_count = 0;
  auto operator<=>(const State&) const = default;
};

struct Variant {
  bool detaches = true;          // no thread may allocate from the span meanwhile
  bool keeps_first = true;       // the first block stays in the list
  bool leaves_countdown = true;  // counts by the bias
  bool owner_waits = true;       // an empty detached span is not released
  bool page_must_be_free = true;
};

// explore(): returns "" if no path loses a block, allocates one twice or purges a live one.
class Explorer : public seemalloc::StateSearch<State> {
 public:
  explicit Explorer(Variant variant) : variant_(variant) {}
  bool purged_something() const { return purged_; }
  bool purged_before_the_owner_was_done() const { return purged_early_; }

 private:
  void expand(const State& s) override {
    bool moved = false;
    if (s.other != kDone) step_other(s), moved = true;
    if (s.purger != kDone && (!s.held || !wants_lock_purger(s))) step_purger(s), moved = true;
    if (s.owner != kDone && (!s.held || !wants_lock_owner(s))) step_owner(s), moved = true;
    if (!moved) check_end(s);
  }
  void fail(const std::string& what) {
    if (problem_.empty()) problem_ = what;
  }

  static bool in(int bits, int block) { return (bits >> block & 1) != 0; }
  static int live(const State& s) { return s.countdown + s.bias; }
  static bool is_empty(const State& s) { return live(s) == s.hole_blocks; }

  // ---- another thread frees block 4: the owner's drain puts it on the list ----
  void step_other(State s) {
    s.has &= ~(1 << 4);
    s.written &= ~(1 << 4);
    s.remote = true;
    s.other = kDone;
    visit(s);
  }

  // ---- the owner ----
  static bool wants_lock_owner(const State& s) { return s.owner >= 5; }

  void drain(State& s) {
    if (!s.remote) return;
    s.remote = false;
    s.next[4] = s.head;
    s.head = 4;
    s.countdown--;
    give_back_if_empty(s);
  }

  void give_back_if_empty(State& s) {
    bool may = s.place == kAvailable || (s.place == kDetached && !variant_.owner_waits);
    if (!may || !is_empty(s)) return;
    s.place = kGivenBack;
    // Another thread has the pages now and writes to them.
    s.has = s.written = (1 << kBlocks) - 1;
  }

  void step_owner(State s) {
    switch (s.owner) {
      case 0:  // free(0): old = head
        s.has &= ~1;
        s.written &= ~1;
        s.owner_old = s.head;
        s.owner = 1;
        return visit(s);
      case 1:  // 0 → old
        s.next[0] = s.owner_old;
        s.owner = 2;
        return visit(s);
      case 2:  // head = 0
        s.head = 0;
        s.owner = 3;
        return visit(s);
      case 3:  // countdown − 1: a load …
        s.owner_count = s.countdown - 1;
        s.owner = 4;
        return visit(s);
      case 4:  // … and a store
        s.countdown = s.owner_count;
        s.owner = s.countdown == 0 ? 5 : 6;
        return visit(s);
      case 5:  // zero: under the lock
        give_back_if_empty(s);
        s.owner = 6;
        return visit(s);
      default:  // malloc, as often as allowed: under the lock
        if (s.place == kGivenBack) {
          s.owner = kDone;
          return visit(s);
        }
        allocate(s);
        s.owner = s.owner == 9 ? kDone : s.owner + 1;
        return visit(s);
    }
  }

  // A refill: first the remote frees, then the list, then a hole.
  void allocate(State& s) {
    drain(s);
    if (s.place == kDetached || s.place == kGivenBack) return;
    s.place = kCurrent;
    if (s.head != kNone) {
      int count = 0;
      for (int block = s.head; block != kNone && problem_.empty(); block = s.next[block])
        hand_out(s, block), count++;
      if (count != kBlocks - live(s)) fail("the list is not what was counted");
      s.head = kNone;
      s.countdown = kBlocks;
      s.bias = 0;
    } else if (s.holes != 0) {
      int page = __builtin_ctz(static_cast<unsigned>(s.holes));
      for (int block = 0; block < kBlocks; block++) {
        if (kPageOf[block] == page) hand_out(s, block), s.hole_blocks--;
      }
      s.holes &= s.holes - 1;
    }
  }
  void hand_out(State& s, int block) {
    if (in(s.has, block)) fail("block " + std::to_string(block) + " is handed out twice");
    s.has |= 1 << block;
    s.written |= 1 << block;
  }

  // ---- the purger ----
  static bool wants_lock_purger(const State& s) {
    return s.purger == 0 || s.purger == 2 || s.purger == 5;
  }

  void step_purger(State s) {
    switch (s.purger) {
      case 0:  // detach; reads the count first, then the head
        if (s.place != kAvailable) {
          s.purger = kDone;
          return visit(s);
        }
        if (variant_.detaches) s.place = kDetached;
        s.expected = kBlocks - live(s);
        s.first = s.at = s.head;
        s.listed = 1;
        s.purger = 1;
        return visit(s);
      case 1:  // read the list, link by link
        s.at = s.next[s.at];
        if (s.at == kNone) {
          s.purger = s.listed == s.expected ? 2 : 5;
        } else if (++s.listed > s.expected) {
          s.purger = 5;
        } else {
          s.found |= 1 << s.at;
        }
        return visit(s);
      case 2:  // unlink, count
        unlink(s);
        s.purging = s.holes;
        s.seen_count = s.countdown;
        if (variant_.leaves_countdown) s.bias += s.hole_blocks;
        s.purger = !variant_.leaves_countdown ? 3 : in(s.holes, kPageOf[s.first]) ? 6 : 4;
        s.held = s.purger != 4;
        return visit(s);
      case 3:  // the mistake: another thread than the owner writes the countdown
        s.countdown = s.seen_count + s.hole_blocks;
        s.held = false;
        s.purger = 4;
        return visit(s);
      case 4:  // purge
        for (int block = 0; block < kBlocks; block++) {
          if (in(s.purging, kPageOf[block]) && in(s.written, block))
            fail("what is in use is purged");
        }
        purged_ |= s.purging != 0;
        purged_early_ |= s.purging != 0 && s.owner != kDone;
        s.purger = 5;
        return visit(s);
      case 5:  // reattach
        if (s.place == kDetached) s.place = kAvailable;
        give_back_if_empty(s);
        s.purger = kDone;
        return visit(s);
      // The mistake: the first block has been unlinked too, and the list begins behind it.
      case 6:
        s.held = false;
        s.head = s.next[s.first];
        s.purger = 4;
        return visit(s);
    }
  }

  void unlink(State& s) {
    if (!variant_.keeps_first && s.head == s.first) s.found |= 1 << s.first;
    for (int page = 0; page < 4; page++) {
      bool free = true, any = false;
      for (int block = 0; block < kBlocks; block++) {
        if (kPageOf[block] != page) continue;
        any |= in(s.found, block);
        free &= in(s.found, block);
      }
      if (any && (free || !variant_.page_must_be_free)) s.holes |= 1 << page;
    }
    int kept = s.first;
    for (int block = s.next[s.first]; block != kNone; block = s.next[block]) {
      if (in(s.holes, kPageOf[block])) {
        s.hole_blocks++;
        s.next[kept] = s.next[block];
      } else {
        kept = block;
      }
    }
    if (in(s.holes, kPageOf[s.first])) s.hole_blocks++;
  }

  void check_end(const State& s) {
    if (s.place == kGivenBack) return;
    int listed = 0, length = 0;
    for (int block = s.head; block != kNone; block = s.next[block]) {
      if (in(listed | s.has, block))
        return fail("block " + std::to_string(block) + " is free twice");
      listed |= 1 << block;
      length++;
    }
    if (length != kBlocks - live(s)) return fail("the list is not what was counted");
    int in_holes = 0;
    for (int block = 0; block < kBlocks; block++) {
      if (in(s.has | listed, block) || (block == 4 && s.remote)) continue;
      if (!in(s.holes, kPageOf[block])) return fail("block " + std::to_string(block) + " is lost");
      in_holes++;
    }
    if (in_holes != s.hole_blocks) fail("holes are not what was counted");
  }

  Variant variant_;
  bool purged_ = false, purged_early_ = false;
};

TEST(HolesModel, NoInterleavingLosesABlockOrPurgesOneInUse) {
  Explorer explorer({});
  EXPECT_EQ(explorer.explore(), "");
  EXPECT_GT(explorer.states(), 100u);
  EXPECT_TRUE(explorer.purged_something());
  EXPECT_TRUE(explorer.purged_before_the_owner_was_done());
}

TEST(HolesModel, ASpanThatIsNotDetachedIsPurgedInUse) {
  EXPECT_NE(Explorer({.detaches = false}).explore(), "");
}

TEST(HolesModel, ReplacingFirstBlockLosesOwnerFrees) {
  EXPECT_NE(Explorer({.keeps_first = false}).explore(), "");
}

TEST(HolesModel, CountdownWrittenByAnotherThreadIsDetected) {
  EXPECT_NE(Explorer({.leaves_countdown = false}).explore(), "");
}

TEST(HolesModel, ADetachedSpanGivenBackIsPurgedInUse) {
  EXPECT_NE(Explorer({.owner_waits = false}).explore(), "");
}

TEST(HolesModel, APageWithALiveBlockIsNoHole) {
  EXPECT_NE(Explorer({.page_must_be_free = false}).explore(), "");
}

}  // namespace

#include "core/heap/maintenance/walk_gate.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>
#include <vector>

#include "core/os/kernel/waits_for_test.h"

namespace seemalloc::heap {
namespace {

// Two workers change words of their own, which two walkers add up. Under TSan an error in the
// protocol is a data race.
TEST(WalkGate, NothingIsChangedUnderAWalk) {
  constexpr int kWorkers = 2, kWalkers = 2, kWalks = 300;
  WalkGate gate;
  struct alignas(64) Pair {
    long one = 0, two = 0;  // equal outside of the critical section
  } pairs[kWorkers];
  std::atomic<int> walking{kWalkers}, worked{0};
  std::atomic<long> walks{0};
  std::vector<std::thread> threads;
  for (Pair& pair : pairs) {
    threads.emplace_back([&] {
      for (bool first = true; walking.load() != 0;) {
        if (!gate.enter()) {
          std::this_thread::yield();
          continue;
        }
        pair.one++;
        EXPECT_TRUE(gate.enter()) << "work may nest";
        pair.two++;
        gate.leave();
        gate.leave();
        worked += first;
        first = false;
      }
    });
  }
  for (int i = 0; i < kWalkers; i++) {
    threads.emplace_back([&] {
      while (worked != kWorkers) std::this_thread::yield();
      for (int n = 0; n < kWalks; n++) {
        if (gate.begin_walk()) {
          for (const Pair& pair : pairs) EXPECT_EQ(pair.one, pair.two);
          walks++;
        }
        EXPECT_FALSE(gate.enter()) << "not by who walks, either";
        gate.end_walk();
        std::this_thread::yield();
      }
      walking--;
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_GT(walks.load(), 0);
  EXPECT_GT(pairs[0].one + pairs[1].one, 0);
  EXPECT_TRUE(gate.enter());
  gate.leave();
}

TEST(WalkGate, WaitForLostWorkerIsBounded) {
  WalkGate gate;
  ASSERT_TRUE(gate.enter());
  std::thread([&] {
    EXPECT_FALSE(gate.begin_walk(kMillisecondNs));
    gate.end_walk();
  }).join();
  gate.leave();
  EXPECT_TRUE(gate.begin_walk());
  gate.end_walk();
}

// The child has the state of its own thread, and not that of the others.
TEST(WalkGate, AChildHasItsOwnOnly) {
  WalkGate gate;
  Progress in, done;
  auto stay = [&] {
    in.advance();
    done.wait_for(1);
  };
  auto exit_of_child = [&gate](auto works) {
    pid_t child = fork();
    if (child == 0) {
      gate.reset_in_child();
      _exit(works() ? 0 : 1);
    }
    int status = -1;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    return status;
  };
  std::thread worker([&] {
    EXPECT_TRUE(gate.enter());
    stay();
    gate.leave();
  });
  in.wait_for(1);
  EXPECT_EQ(exit_of_child([&] { return gate.begin_walk(); }), 0);
  ASSERT_TRUE(gate.enter());
  EXPECT_EQ(exit_of_child([&] {
              bool own_state = !gate.begin_walk(kMillisecondNs);
              gate.end_walk();
              gate.leave();
              return own_state && gate.begin_walk();
            }),
            0);
  gate.leave();
  std::thread walker([&] {
    gate.begin_walk();
    stay();
    gate.end_walk();
  });
  in.wait_for(2);
  EXPECT_EQ(exit_of_child([&] { return gate.enter(); }), 0);
  done.advance();
  worker.join();
  walker.join();
}

}  // namespace
}  // namespace seemalloc::heap

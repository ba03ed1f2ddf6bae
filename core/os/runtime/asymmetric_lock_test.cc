#include "core/os/runtime/asymmetric_lock.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "core/os/kernel/fault.h"

namespace seemalloc {
namespace {

struct Guarded {
  AsymmetricLock lock;
  long one = 0, two = 0;  // always equal outside of the lock
};

// The owner and two other threads change the same plain data; under ThreadSanitizer a hole in the
// protocol is a race.
TEST(AsymmetricLock, OneAtATime) {
  Guarded guarded;
  std::atomic<bool> done{false};
  std::atomic<long> closed{0};
  std::vector<std::thread> others;
  for (int i = 0; i < 2; i++) {
    others.emplace_back([&] {
      while (!done.load()) {
        if (!guarded.lock.try_lock_other()) continue;
        EXPECT_EQ(guarded.one, guarded.two);
        guarded.one++;
        guarded.two++;
        closed++;
        guarded.lock.unlock_other();
        std::this_thread::yield();
      }
    });
  }
  // The side that enters less often determines the duration: on a loaded machine a holder may be
  // descheduled for a while.
  long entered = 0;
  for (long tries = 0; tries < 100'000'000 && (entered < 200'000 || closed.load() < 100); tries++) {
    if (tries % 64 == 0) std::this_thread::yield();
    if (!guarded.lock.try_lock_owner()) continue;
    EXPECT_EQ(guarded.one, guarded.two);
    guarded.one++;
    guarded.two++;
    entered++;
    guarded.lock.unlock_owner();
  }
  done = true;
  for (std::thread& t : others) t.join();
  EXPECT_EQ(guarded.one, entered + closed.load());
  EXPECT_GT(entered, 0);
  EXPECT_GT(closed.load(), 0);
}

TEST(AsymmetricLock, BothSidesGiveWay) {
  AsymmetricLock lock;
  ASSERT_TRUE(lock.try_lock_owner());
  EXPECT_FALSE(lock.try_lock_other());
  lock.unlock_owner();
  ASSERT_TRUE(lock.try_lock_other());
  EXPECT_FALSE(lock.try_lock_owner());
  EXPECT_FALSE(lock.try_lock_other());
  lock.unlock_other();
  EXPECT_TRUE(lock.try_lock_owner());
}

TEST(AsymmetricLock, NoOtherThreadWithoutMembarrier) {
  AsymmetricLock lock;
  {
    os::FailCalls refuse(SYS_membarrier, ENOSYS);
    EXPECT_FALSE(lock.try_lock_other());
    EXPECT_GT(refuse.refusals(), 0u);
  }
  EXPECT_TRUE(lock.try_lock_owner()) << "left open";
}

}  // namespace
}  // namespace seemalloc

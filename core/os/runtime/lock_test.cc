// Waiting for a lock is counted, with its duration; taking a free one is not.
#include "core/os/runtime/lock.h"

#include <errno.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>

#include <atomic>
#include <thread>

#include "core/base/units.h"
#include "core/os/kernel/clock.h"
#include "core/os/kernel/fault.h"
#include "core/os/kernel/waits_for_test.h"

namespace seemalloc {
namespace {

template <typename L>
class LockWaitTest : public testing::Test {
 protected:
  static LockWaits waits() {
    if constexpr (std::is_same_v<L, Lock>) return shared_lock_waits();
    return owner_lock_waits();
  }
};
using Locks = testing::Types<Lock, OwnerLock>;
TYPED_TEST_SUITE(LockWaitTest, Locks);

TYPED_TEST(LockWaitTest, FreeLocksCountNothing) {
  TypeParam lock;
  LockWaits before = this->waits();
  for (int i = 0; i < 1000; i++) LockGuard guard(lock);
  lock.lock();
  EXPECT_FALSE(lock.try_lock());
  lock.unlock();
  LockWaits after = this->waits();
  EXPECT_EQ(after.short_waits, before.short_waits);
  EXPECT_EQ(after.waits, before.waits);
  EXPECT_EQ(after.wait_ns, before.wait_ns);
}

// One thread holds the lock until another waits for it.
template <typename L>
void make_wait(L& lock) {
  CallWatch watch;
  lock.lock();
  std::thread waiter([&] {
    watch.expect_by_this_thread(SYS_futex);
    LockGuard guard(lock);
  });
  watch.wait_for(1);
  lock.unlock();
  waiter.join();
}

TYPED_TEST(LockWaitTest, AWaiterIsCountedWithItsTime) {
  static TypeParam lock;
  LockWaits before = this->waits();
  uint64_t begin = os::monotonic_ns();
  make_wait(lock);
  LockWaits after = this->waits();
  EXPECT_EQ(after.short_waits, before.short_waits);
  EXPECT_EQ(after.waits - before.waits, 1u);
  EXPECT_GT(after.wait_ns - before.wait_ns, 0u);
  EXPECT_LT(after.wait_ns - before.wait_ns, os::monotonic_ns() - begin);
}

// On a busy machine the holder may not run while the forking thread pauses many times.
TYPED_TEST(LockWaitTest, AForkWaitsForAHolderThatDoesNotRun) {
  constexpr unsigned kPauses = 10000;
  static TypeParam lock;
  std::atomic<bool> held{false}, release{false};
  os::FailCalls pauses(SYS_futex, ETIMEDOUT);  // each pause ends immediately
  std::thread holder([&] {
    LockGuard guard(lock);
    held = true;
    while (!release && pauses.refusals() < kPauses) std::this_thread::yield();
  });
  while (!held) std::this_thread::yield();
  lock.lock_for_fork();
  std::thread([] { EXPECT_FALSE(lock.try_lock()); }).join();
  EXPECT_GE(pauses.refusals(), kPauses) << "the fork has given up";
  release = true;
  lock.unlock_after_fork();
  holder.join();
  EXPECT_TRUE(lock.try_lock());
  lock.unlock();
}

// Each time a thread is kept out counts once, as a short or a long wait.
TYPED_TEST(LockWaitTest, ContentionCountsNoMoreThanOncePerLock) {
  constexpr unsigned kThreads = 4, kEach = 20000;
  static TypeParam lock;
  static uint64_t protected_count = 0;
  LockWaits before = this->waits();
  std::thread threads[kThreads];
  for (std::thread& thread : threads) {
    thread = std::thread([] {
      for (unsigned i = 0; i < kEach; i++) {
        LockGuard guard(lock);
        protected_count++;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  LockWaits after = this->waits();
  EXPECT_EQ(protected_count, uint64_t{kThreads} * kEach);
  EXPECT_LE(after.short_waits - before.short_waits + after.waits - before.waits,
            uint64_t{kThreads} * kEach);
}

}  // namespace
}  // namespace seemalloc

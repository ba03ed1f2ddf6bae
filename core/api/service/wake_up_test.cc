#include "core/api/service/wake_up.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <iterator>
#include <thread>

#include "core/base/units.h"
#include "core/os/kernel/clock.h"
#include "core/os/kernel/fault.h"
#include "core/os/kernel/ids.h"
#include "core/os/kernel/waits_for_test.h"

namespace seemalloc {
namespace {

constexpr uint64_t kLongNs = 20 * kSecondNs;

void block(int signal) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, signal);
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
}

// The helper's wait: returns how long it waited.
uint64_t wait(WakeUp& wake_up, uint64_t timeout_ns) {
  wake_up.keep_open();
  uint64_t begin = os::monotonic_ns();
  os::Poll polls[] = {wake_up.wanted()};
  os::poll_ready(polls, 1, timeout_ns);
  wake_up.note(polls[0]);
  return os::monotonic_ns() - begin;
}

class WakeUpTest : public testing::Test {
 protected:
  void SetUp() override {
    block(WakeUp::signal());
    // Left by the previous test.
    while (os::is_signal_pending(WakeUp::signal())) os::take_signal(WakeUp::signal());
  }
};

TEST_F(WakeUpTest, BeforeAndWhileItWaits) {
  WakeUp wake_up;
  wake_up.keep_open();
  int me = os::thread_id();
  wake_up.wake(os::process_id(), me);
  wake_up.wake(os::process_id(), me);
  EXPECT_LT(wait(wake_up, kLongNs), kLongNs / 2);
  EXPECT_GE(wait(wake_up, 20 * kMillisecondNs), 15 * kMillisecondNs) << "once";
  CallWatch watch;
  std::thread other([&] {
    watch.wait_for(1);
    wake_up.wake(os::process_id(), me);
  });
  watch.expect_by_this_thread(SYS_ppoll);
  EXPECT_LT(wait(wake_up, kLongNs), kLongNs / 2);
  other.join();
}

TEST_F(WakeUpTest, NoneIsLost) {
  WakeUp wake_up;
  wake_up.keep_open();
  int me = os::thread_id();
  std::atomic<unsigned> asked{0};
  constexpr unsigned kMany = 20000;
  std::thread other([&] {
    for (unsigned i = 0; i < kMany; i++) {
      asked.fetch_add(1);
      wake_up.wake(os::process_id(), me);
    }
  });
  uint64_t begin = os::monotonic_ns();
  while (asked.load() != kMany) wait(wake_up, kSecondNs);
  EXPECT_LT(os::monotonic_ns() - begin, kLongNs);
  other.join();
}

// The program may wait for this signal itself.
TEST_F(WakeUpTest, TheProgramsOwnSignalIsLeftAlone) {
  WakeUp wake_up;
  wake_up.keep_open();
  kill(getpid(), WakeUp::signal());
  for (int i = 0; i < 10; i++) wait(wake_up, kMillisecondNs);
  sigset_t pending;
  sigpending(&pending);
  EXPECT_TRUE(sigismember(&pending, WakeUp::signal()));
  os::take_signal(WakeUp::signal());
  sigpending(&pending);
  EXPECT_FALSE(sigismember(&pending, WakeUp::signal()));
}

size_t open_descriptors() {
  std::filesystem::directory_iterator all("/proc/self/fd");
  return static_cast<size_t>(std::distance(begin(all), end(all)));
}

// The descriptor shows the signal as long as it is pending: the helper thread must still sleep, and
// not open another descriptor each time.
TEST_F(WakeUpTest, WhileTheProgramsOwnSignalIsPendingItSleepsAndOpensNothing) {
  WakeUp wake_up;
  wake_up.keep_open();
  int me = os::thread_id();
  kill(getpid(), WakeUp::signal());
  size_t open = open_descriptors();
  for (int i = 0; i < 50; i++) wait(wake_up, kMillisecondNs);
  uint64_t begin = os::thread_cpu_ns();
  unsigned slept = 0;
  for (int i = 0; i < 3000; i++) slept += wait(wake_up, 20000) >= 20000;
  EXPECT_GT(slept, 2900u);
  EXPECT_LT(os::thread_cpu_ns() - begin, kSecondNs);
  EXPECT_EQ(open_descriptors(), open);
  // A wake-up is delayed then, and only its own signal is consumed.
  wake_up.wake(os::process_id(), me);
  wait(wake_up, kMillisecondNs);
  EXPECT_TRUE(os::is_signal_pending(WakeUp::signal()));
  os::take_signal(WakeUp::signal());
  EXPECT_FALSE(os::is_signal_pending(WakeUp::signal()));
  wait(wake_up, kMillisecondNs);
  wake_up.wake(os::process_id(), me);
  EXPECT_LT(wait(wake_up, kLongNs), kLongNs / 2) << "as before";
}

TEST_F(WakeUpTest, RefusedItWakesWhenItsTimeIsOver) {
  WakeUp wake_up;
  {
    os::FailCalls refuse(SYS_signalfd4, ENOSYS);
    wake_up.keep_open();
  }
  EXPECT_LT(wake_up.wanted().fd, 0);
  wake_up.wake(os::process_id(), os::thread_id());
  EXPECT_GE(wait(wake_up, 20 * kMillisecondNs), 15 * kMillisecondNs);
  wake_up.forget();
  wake_up.keep_open();
  EXPECT_GE(wake_up.wanted().fd, 0);
}

TEST_F(WakeUpTest, ClosedByTheProgramItIsOpenedAgain) {
  WakeUp wake_up;
  wake_up.keep_open();
  close(wake_up.wanted().fd);
  wake_up.keep_open();
  wake_up.wake(os::process_id(), os::thread_id());
  EXPECT_LT(wait(wake_up, kLongNs), kLongNs / 2);
}

}  // namespace
}  // namespace seemalloc

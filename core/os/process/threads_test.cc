#include "core/os/process/threads.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include <atomic>
#include <set>
#include <thread>

#include "core/base/units.h"
#include "core/os/kernel/fault.h"
#include "core/os/kernel/ids.h"
#include "core/os/kernel/wait.h"

namespace seemalloc::os {
namespace {

std::set<int> threads() {
  std::set<int> found;
  EXPECT_TRUE(for_each_thread(
      [](void* context, int thread) { static_cast<std::set<int>*>(context)->insert(thread); },
      &found));
  return found;
}

// A thread that waits, spins or ends, as commanded.
class Spinner {
 public:
  Spinner() : thread_([this] { run(); }) {
    while (id == 0) pause(kMillisecondNs);
  }
  ~Spinner() { end(); }
  void end() {
    stop_ = true;
    if (thread_.joinable()) thread_.join();
  }
  void spin() { spinning_ = true; }
  std::atomic<int> id{0};

 private:
  void run() {
    id = thread_id();
    while (!stop_) {
      if (!spinning_) pause(kMillisecondNs);
    }
  }
  std::atomic<bool> stop_{false}, spinning_{false};
  std::thread thread_;
};

TEST(Threads, HaveNames) {
  Spinner other;
  char name[kThreadNameBytes];
  EXPECT_TRUE(is_thread(other.id));
  ASSERT_TRUE(own_thread_name(name));
  char before[kThreadNameBytes];
  memcpy(before, name, sizeof(name));
  // The longest name possible.
  for (const char* given : {"fifteen letters", "two\nlines", "", "x"}) {
    prctl(PR_SET_NAME, given);
    ASSERT_TRUE(own_thread_name(name));
    EXPECT_STREQ(name, given);
    ASSERT_TRUE(read_thread_name(thread_id(), name));
    EXPECT_STREQ(name, given);
  }
  ASSERT_TRUE(read_thread_name(other.id, name));
  EXPECT_STREQ(name, before) << "another thread has been renamed";
  prctl(PR_SET_NAME, before);
  int gone = other.id;
  other.end();
  for (int i = 0; i < 1000 && is_thread(gone); i++) pause(kMillisecondNs);
  EXPECT_FALSE(is_thread(gone));
  EXPECT_FALSE(read_thread_name(gone, name));
  EXPECT_FALSE(is_thread(1)) << "of another process";
}

TEST(Threads, ListsThoseOfThisProcess) {
  EXPECT_TRUE(threads().contains(thread_id()));
  int gone;
  {
    Spinner other;
    gone = other.id;
    EXPECT_TRUE(threads().contains(gone));
  }
  // Join may return before the thread is gone.
  for (int i = 0; i < 1000 && threads().contains(gone); i++) pause(kMillisecondNs);
  EXPECT_FALSE(threads().contains(gone));
}

TEST(Threads, ReportsFailure) {
  FailCalls refuse(SYS_openat, 2);
  bool any = false;
  EXPECT_FALSE(
      for_each_thread([](void* context, int) { *static_cast<bool*>(context) = true; }, &any));
  EXPECT_FALSE(any);
}

std::atomic<int> signals{0}, elsewhere{0};
std::atomic<int> expected_thread{0};
std::atomic<void*> carried{nullptr};

void count_signal(int, siginfo_t* info, void*) {
  signals++;
  elsewhere += thread_id() != expected_thread;
  carried = info->si_value.sival_ptr;
}

void handle(int signal) {
  struct sigaction action {};
  action.sa_sigaction = count_signal;
  action.sa_flags = SA_SIGINFO | SA_RESTART;
  ASSERT_EQ(sigaction(signal, &action, nullptr), 0);
}

TEST(ThreadTimer, InterruptsItsThreadWhileItRuns) {
  handle(SIGUSR1);
  Spinner other;
  expected_thread = other.id.load();
  signals = 0;
  int token;
  int timer = make_thread_timer(other.id, ThreadClock::kCpu, SIGUSR1, &token);
  ASSERT_GE(timer, 0);
  EXPECT_FALSE(is_timer_set(timer));
  ASSERT_TRUE(set_timer(timer, 10 * kMillisecondNs, 10 * kMillisecondNs));
  EXPECT_TRUE(is_timer_set(timer));
  pause(50 * kMillisecondNs);
  EXPECT_LE(signals, 1) << "it sleeps";
  other.spin();
  for (int i = 0; i < 20000 && signals < 5; i++) pause(kMillisecondNs);
  EXPECT_GE(signals, 5);
  EXPECT_EQ(elsewhere, 0);
  EXPECT_EQ(carried, &token);
  other.end();
  for (int i = 0; i < 1000 && is_timer_set(timer); i++) pause(kMillisecondNs);
  EXPECT_FALSE(is_timer_set(timer)) << "its thread has ended";
  delete_timer(timer);
}

TEST(ThreadTimer, OfTheWallInterruptsASleeper) {
  handle(SIGUSR1);
  Spinner other;
  expected_thread = other.id.load();
  signals = elsewhere = 0;
  int timer = make_thread_timer(other.id, ThreadClock::kWall, SIGUSR1, nullptr);
  ASSERT_GE(timer, 0);
  ASSERT_TRUE(set_timer(timer, kMillisecondNs, kMillisecondNs));
  for (int i = 0; i < 10000 && signals < 5; i++) pause(kMillisecondNs);
  delete_timer(timer);
  EXPECT_GE(signals, 5);
  EXPECT_EQ(elsewhere, 0);
}

TEST(ThreadTimer, IsRefusedForAThreadThatIsNotOurs) {
  EXPECT_LT(make_thread_timer(1 << 30, ThreadClock::kCpu, SIGUSR1, nullptr), 0);
  EXPECT_LT(make_thread_timer(getppid(), ThreadClock::kCpu, SIGUSR1, nullptr), 0);
  FailCalls refuse(SYS_timer_create, 11);
  EXPECT_EQ(make_thread_timer(thread_id(), ThreadClock::kCpu, SIGUSR1, nullptr), -11);
}

TEST(ThreadTimer, ThatIsNoneIsHarmless) {
  EXPECT_FALSE(set_timer(123456, 1, 1));
  EXPECT_FALSE(is_timer_set(123456));
  delete_timer(123456);
}

TEST(ProfilingTimer, IsSeen) {
  signal(SIGPROF, SIG_IGN);
  EXPECT_FALSE(has_profiling_timer());
  itimerval times{{10, 0}, {10, 0}};
  ASSERT_EQ(setitimer(ITIMER_PROF, &times, nullptr), 0);
  EXPECT_TRUE(has_profiling_timer());
  times = {};
  setitimer(ITIMER_PROF, &times, nullptr);
  EXPECT_FALSE(has_profiling_timer());
}

}  // namespace
}  // namespace seemalloc::os

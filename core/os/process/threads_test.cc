#include "core/os/process/threads.h"

#include <gtest/gtest.h>
#include <semaphore.h>
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
#include "core/os/kernel/waits_for_test.h"

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
  Spinner() {
    sem_init(&commanded_, 0, 0);
    thread_ = std::thread([this] { run(); });
    ready_.wait_for(1);
  }
  ~Spinner() {
    end();
    sem_destroy(&commanded_);
  }
  void end() {
    if (!thread_.joinable()) return;
    command(kEnd);
    thread_.join();
  }
  void spin() { command(kSpin); }
  std::atomic<int> id{0};

 private:
  void run() {
    id = thread_id();
    ready_.advance();
    // The thread sanitizer delivers signals during this call, but not during an atomic's wait.
    while (command_ == kWait) sem_wait(&commanded_);
    while (command_ == kSpin) continue;
  }
  enum Command { kWait, kSpin, kEnd };
  void command(Command next) {
    command_ = next;
    sem_post(&commanded_);
  }
  std::atomic<Command> command_{kWait};
  sem_t commanded_;
  Progress ready_;
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
  // Join may return before the thread is gone.
  wait_until([gone] { return !is_thread(gone); }, "the end of the thread");
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
  wait_until([gone] { return !threads().contains(gone); }, "the end of the thread");
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
  for (uint64_t end = thread_cpu_ns() + 50 * kMillisecondNs; thread_cpu_ns() < end;) continue;
  EXPECT_LE(signals, 1) << "it sleeps, only this thread runs";
  other.spin();
  wait_until([] { return signals >= 5; }, "five signals of the CPU timer");
  EXPECT_EQ(elsewhere, 0);
  EXPECT_EQ(carried, &token);
  other.end();
  wait_until([timer] { return !is_timer_set(timer); }, "the timer ends with its thread");
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
  wait_until([] { return signals >= 5; }, "five signals of the wall timer");
  delete_timer(timer);
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

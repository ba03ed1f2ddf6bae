// CPU profiles of this process: the accuracy of their figures, threads, signals and timers of the
// program's own, fork, refusals.
#include <errno.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <seemalloc/seemalloc.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "core/api/cpu/cpu_profiler.h"
#include "core/api/malloc/test_api.h"
#include "core/base/units.h"
#include "core/os/kernel/clock.h"
#include "core/os/kernel/fault.h"
#include "core/os/kernel/memory.h"
#include "core/os/kernel/waits_for_test.h"
#include "core/profile/pprof/decoder_for_test.h"

namespace seemalloc {
namespace {

#ifdef __SANITIZE_THREAD__
// The thread sanitizer holds them back until the thread makes a call that it knows.
constexpr bool kSignalsComeLate = true;
#else
constexpr bool kSignalsComeLate = false;
#endif

// Each uses this much CPU time of its thread. Each is in a section of its own, whose bounds the
// linker knows.
extern "C" const char __start_burn_a_code, __stop_burn_a_code, __start_burn_b_code,
    __stop_burn_b_code;
#define BURNER(name) __attribute__((noipa, section(#name "_code")))
BURNER(burn_a) void burn_a(uint64_t ns) {
  for (uint64_t end = os::thread_cpu_ns() + ns; os::thread_cpu_ns() < end;) {
    for (int i = 0; i < 20000; i++) asm volatile("" : "+r"(i));
  }
}
BURNER(burn_b) void burn_b(uint64_t ns) {
  for (uint64_t end = os::thread_cpu_ns() + ns; os::thread_cpu_ns() < end;) {
    for (int i = 0; i < 20000; i++) asm volatile("" : "+r"(i));
  }
}

bool is_in(uint64_t address, void (*function)(uint64_t)) {
  bool first = function == burn_a;
  auto start = reinterpret_cast<uint64_t>(first ? &__start_burn_a_code : &__start_burn_b_code);
  auto stop = reinterpret_cast<uint64_t>(first ? &__stop_burn_a_code : &__stop_burn_b_code);
  return address >= start && address < stop;
}

struct Seen {
  std::vector<profile::DecodedRow> rows;
  std::vector<std::string> comments;
  uint64_t period = 0;

  // Interrupts and CPU time of the stacks that have this function.
  uint64_t interrupts(void (*function)(uint64_t)) const { return sum(function, 0); }
  uint64_t ns(void (*function)(uint64_t)) const { return sum(function, 1); }
  uint64_t all_ns() const {
    int64_t sum = 0;
    for (const auto& row : rows) sum += row.values[1];
    return static_cast<uint64_t>(sum);
  }
  bool has_comment(const std::string& part) const {
    for (const std::string& comment : comments) {
      if (comment.find(part) != std::string::npos) return true;
    }
    return false;
  }
  // The number before this text.
  uint64_t number_before(const std::string& text) const {
    for (const std::string& comment : comments) {
      size_t at = comment.find(text);
      if (at == std::string::npos) continue;
      size_t start = comment.find_last_not_of("0123456789", at - 1) + 1;
      return strtoull(comment.c_str() + start, nullptr, 10);
    }
    return 0;
  }

 private:
  uint64_t sum(void (*function)(uint64_t), size_t value) const {
    int64_t sum = 0;
    for (const auto& row : rows) {
      for (uint64_t address : row.stack) {
        if (!is_in(address, function)) continue;
        sum += row.values[value];
        break;
      }
    }
    return static_cast<uint64_t>(sum);
  }
};

Seen seen() {
  ProfileBytes bytes{};
  EXPECT_TRUE(cpu_profile(&bytes));
  std::string text(bytes.data, bytes.bytes);
  os::unmap(bytes.data, bytes.mapped_bytes, os::Reason::kReport);
  profile::Profile decoded = profile::decode(text);
  return {profile::rows_of(text), decoded.comments, decoded.numbers[12]};
}

int start(unsigned frequency) { return seemalloc_cpu_start(frequency) == 0 ? 0 : errno; }
int stop() { return seemalloc_cpu_stop() == 0 ? 0 : errno; }

TEST(CpuProfiler, IsEmptyBeforeTheFirst) {
  EXPECT_EQ(stop(), ESRCH);
  EXPECT_EQ(seemalloc_cpu_running(nullptr), 0);
  EXPECT_TRUE(seen().rows.empty());
}

TEST(CpuProfiler, ChecksArguments) {
  EXPECT_EQ(start(4001), EINVAL);
  ASSERT_EQ(start(50), 0);
  EXPECT_EQ(start(50), EALREADY);
  EXPECT_EQ(seemalloc_cpu_running(nullptr), 1);
  EXPECT_EQ(stop(), 0);
  EXPECT_EQ(stop(), ESRCH);
  EXPECT_EQ(seen().period, 20 * kMillisecondNs);
  ASSERT_EQ(start(0), 0);
  EXPECT_EQ(stop(), 0);
  EXPECT_EQ(seen().period, 10 * kMillisecondNs);
}

// Two functions that use CPU time two to one, alternating, in two threads.
TEST(CpuProfiler, ReportsTrueValues) {
  if (kSignalsComeLate) GTEST_SKIP();
  ASSERT_EQ(start(200), 0);
  auto work = [] {
    sm_free(sm_malloc(100));  // the profiler notices the thread here
    for (int i = 0; i < 25; i++) {
      burn_a(24 * kMillisecondNs);
      burn_b(12 * kMillisecondNs);
    }
  };
  std::thread other(work);
  work();
  other.join();
  ASSERT_EQ(stop(), 0);
  Seen profile = seen();
  double a = static_cast<double>(profile.ns(burn_a)), b = static_cast<double>(profile.ns(burn_b));
  double samples = static_cast<double>(profile.interrupts(burn_a) + profile.interrupts(burn_b));
  EXPECT_GT(samples, 60);
  double error = std::sqrt(2.0 / 3 * 1 / 3 / samples);
  EXPECT_NEAR(a / (a + b), 2.0 / 3, 4.5 * error + 0.02) << samples << " samples";
  // Of 1.8 s in total. On a machine with other load ticks come late; they are not lost.
  EXPECT_NEAR((a + b) / 1.8e9, 1, 0.25);
  EXPECT_EQ(profile.number_before(" samples with a broken unwind"), 0u);
  size_t interrupts = 0;
  seemalloc_cpu_running(&interrupts);
  EXPECT_GE(interrupts, profile.interrupts(burn_a) + profile.interrupts(burn_b));
}

// A timer signal that is delayed, since the kernel checks timers only at its own ticks, stands for
// all the time since.
TEST(CpuProfiler, CountsTimeAboveTheKernelsOwnFrequency) {
  if (kSignalsComeLate) GTEST_SKIP();
  ASSERT_EQ(start(4000), 0);
  burn_a(500 * kMillisecondNs);
  ASSERT_EQ(stop(), 0);
  EXPECT_NEAR(static_cast<double>(seen().ns(burn_a)) / 0.5e9, 1, 0.25);
}

TEST(CpuProfiler, SeesThreadsThatComeAndGo) {
  if (kSignalsComeLate) GTEST_SKIP();
  constexpr int kThreads = 40;
  // Time that a thread uses after the last kernel tick that interrupted it is lost: a few
  // milliseconds, more on a busy machine.
  constexpr uint64_t kEachNs = 50 * kMillisecondNs;
  ASSERT_EQ(start(500), 0);
  for (int i = 0; i < kThreads; i += 2) {
    auto work = [] {
      sm_free(sm_malloc(100));  // the profiler notices the thread here
      burn_b(kEachNs);
    };
    std::thread one(work), two(work);
    one.join();
    two.join();
  }
  ASSERT_EQ(stop(), 0);
  Seen profile = seen();
  EXPECT_GE(profile.number_before(" had a timer"), uint64_t{kThreads});
  EXPECT_NEAR(static_cast<double>(profile.ns(burn_b)) / static_cast<double>(kThreads * kEachNs), 1,
              0.4);
}

TEST(CpuProfiler, ReportsWhichThreadRan) {
  if (kSignalsComeLate) GTEST_SKIP();
  ASSERT_EQ(start(500), 0);
  auto work = [](const char* name, void (*burn)(uint64_t), uint64_t ns) {
    sm_free(sm_malloc(100));  // the profiler notices it before it has its name
    pthread_setname_np(pthread_self(), name);
    burn(ns);
  };
  std::thread one(work, "burns a", burn_a, 600 * kMillisecondNs),
      two(work, "burns both", burn_b, 400 * kMillisecondNs);
  one.join();
  two.join();
  std::thread(work, "burns both", burn_a, 400 * kMillisecondNs).join();
  ASSERT_EQ(stop(), 0);
  std::map<std::string, int64_t> a, b;
  std::set<std::string> tids;
  for (const auto& row : seen().rows) {
    auto calls = [&](void (*function)(uint64_t)) {
      return std::any_of(row.stack.begin(), row.stack.end(),
                         [&](uint64_t address) { return is_in(address, function); });
    };
    if (calls(burn_a)) a[row.labels.at("thread")] += row.values[1];
    if (calls(burn_b)) b[row.labels.at("thread")] += row.values[1];
    if (row.labels.at("thread") == "burns both") tids.insert(row.labels.at("tid"));
  }
  EXPECT_EQ(a.size(), 2u);
  // Time after the last kernel tick is lost: up to 50 ms of a thread were seen on a busy machine.
  EXPECT_NEAR(static_cast<double>(a["burns a"]) / 0.6e9, 1, 0.3);
  EXPECT_NEAR(static_cast<double>(a["burns both"]) / 0.4e9, 1, 0.3);
  EXPECT_EQ(b.size(), 1u);
  EXPECT_NEAR(static_cast<double>(b["burns both"]) / 0.4e9, 1, 0.3);
  EXPECT_EQ(tids.size(), 2u) << "two threads of one name";
}

// The helper thread finds threads that never allocate.
TEST(CpuProfiler, SeesThreadsThatNeverAskForMemory) {
  if (kSignalsComeLate) GTEST_SKIP();
  ASSERT_EQ(start(200), 0);
  std::atomic<bool> done{false};
  std::thread burns([&done] {
    while (!done) burn_b(10 * kMillisecondNs);
  });
  wait_until([] { return seen().ns(burn_b) > uint64_t{300} * kMillisecondNs; },
             "samples of the thread");
  done = true;
  burns.join();
  ASSERT_EQ(stop(), 0);
}

// The helper thread sleeps for half a second or longer, so a start must wake it.
TEST(CpuProfiler, AStartWakesTheHelperWhichFindsNewThreads) {
  // The helper may have a wake-up that it has not seen yet; then a start sends no other.
  CallWatch watch;
  wait_until(
      [&watch] {
        watch.expect_by_this_thread(SYS_tgkill);
        EXPECT_EQ(start(100), 0);
        EXPECT_EQ(stop(), 0);
        return watch.count() > 0;
      },
      "a start that signals the helper thread");
  ASSERT_EQ(start(100), 0);
  uint64_t before = seen().number_before(" had a timer");
  Progress done;
  std::thread quiet([&done] { done.wait_for(1); });
  wait_until([before] { return seen().number_before(" had a timer") > before; },
             "a timer of the new thread");
  done.advance();
  quiet.join();
  ASSERT_EQ(stop(), 0);
}

void by_the_program(int) {}

TEST(CpuProfiler, LeavesAHandlerOfTheProgramAlone) {
  struct sigaction before {
  }, now{};
  sigaction(SIGPROF, nullptr, &before);
  signal(SIGPROF, by_the_program);
  EXPECT_EQ(start(100), EBUSY);
  sigaction(SIGPROF, nullptr, &now);
  EXPECT_EQ(now.sa_handler, by_the_program);
  EXPECT_EQ(seemalloc_cpu_running(nullptr), 0);
  sigaction(SIGPROF, &before, nullptr);
  itimerval times{{1000, 0}, {1000, 0}};
  setitimer(ITIMER_PROF, &times, nullptr);
  EXPECT_EQ(start(100), EBUSY);
  times = {};
  setitimer(ITIMER_PROF, &times, nullptr);
  EXPECT_EQ(start(100), 0);
  EXPECT_EQ(stop(), 0);
}

TEST(CpuProfiler, EndsWhenTheProgramTakesTheSignal) {
  ASSERT_EQ(start(100), 0);
  struct sigaction ours {};
  sigaction(SIGPROF, nullptr, &ours);
  burn_a(100 * kMillisecondNs);
  testing::internal::CaptureStderr();
  signal(SIGPROF, by_the_program);
  wait_until([] { return seemalloc_cpu_running(nullptr) == 0; }, "the end of the CPU profile");
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "seemalloc: CPU profile ended: the program has set a handler of its own for SIGPROF\n");
  EXPECT_EQ(stop(), ESRCH);
  EXPECT_TRUE(seen().has_comment("ended early: the program has set a handler"));
  sigaction(SIGPROF, &ours, nullptr);
}

TEST(CpuProfiler, EndsByItself) {
  CpuRequest request{100};
  request.max_duration_ns = 50 * kMillisecondNs;
  ASSERT_EQ(start_cpu_profile(request), CpuStartResult::kStarted);
  wait_until([] { return seemalloc_cpu_running(nullptr) == 0; }, "the end of the CPU profile");
  EXPECT_FALSE(seen().has_comment("ended early"));
}

TEST(CpuProfiler, IsNotInherited) {
  if (kSignalsComeLate) GTEST_SKIP() << "the sanitizer allows no threads after a fork";
  ASSERT_EQ(start(1000), 0);
  pid_t child = fork();
  if (child == 0) {
    size_t interrupts = 1;
    bool good = seemalloc_cpu_running(&interrupts) == 0 && interrupts == 0 && stop() == ESRCH;
    burn_a(50 * kMillisecondNs);
    seemalloc_cpu_running(&interrupts);
    good = good && interrupts == 0;
    good = good && start(1000) == 0;
    burn_b(100 * kMillisecondNs);
    good = good && stop() == 0;
    Seen profile = seen();
    good = good && profile.ns(burn_a) == 0 && (profile.ns(burn_b) > 0 || kSignalsComeLate);
    _exit(good ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  EXPECT_EQ(seemalloc_cpu_running(nullptr), 1);
  burn_a(100 * kMillisecondNs);
  EXPECT_EQ(stop(), 0);
  EXPECT_TRUE(kSignalsComeLate || seen().ns(burn_a) > 0);
}

bool is_blocked() {
  sigset_t now;
  pthread_sigmask(SIG_BLOCK, nullptr, &now);
  return sigismember(&now, SIGPROF) == 1;
}

// Registered before the library's handlers, and therefore called after them: right before fork.
bool blocked_before_fork = false;
void register_first() {
  pthread_atfork([] { blocked_before_fork = is_blocked(); }, nullptr, nullptr);
}
__attribute__((section(".preinit_array"), used)) void (*const first)() = register_first;

// Old kernels would restart the fork at each interrupt. The fork handlers block the signal, whether
// a profile runs or not (core/api/malloc/fork.cc).
TEST(CpuProfiler, DoesNotInterruptAFork) {
  auto blocked_during_fork = [] {
    pid_t child = fork();
    if (child == 0) _exit(is_blocked() ? 1 : 0);
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(WEXITSTATUS(status) == 1, is_blocked()) << "the child's is as the parent's";
    return blocked_before_fork;
  };
  EXPECT_TRUE(blocked_during_fork());
  EXPECT_FALSE(is_blocked());
  ASSERT_EQ(start(100), 0);
  EXPECT_TRUE(blocked_during_fork());
  EXPECT_FALSE(is_blocked());
  sigset_t ours;
  sigemptyset(&ours);
  sigaddset(&ours, SIGPROF);
  pthread_sigmask(SIG_BLOCK, &ours, nullptr);
  EXPECT_TRUE(blocked_during_fork());
  EXPECT_TRUE(is_blocked()) << "by the program";
  pthread_sigmask(SIG_UNBLOCK, &ours, nullptr);
  EXPECT_EQ(stop(), 0);
}

// Signals that were not sent by our timers are not samples, and do no harm, nor do those that
// arrive after the profile's end.
TEST(CpuProfiler, TakesAStormOfSignals) {
  ASSERT_EQ(start(10), 0);
  size_t before = 0, after = 0;
  seemalloc_cpu_running(&before);
  pthread_t target = pthread_self();
  std::thread storm([target] {
    for (int i = 0; i < 20000; i++) pthread_kill(target, SIGPROF);
  });
  burn_a(100 * kMillisecondNs);
  storm.join();
  seemalloc_cpu_running(&after);
  EXPECT_EQ(stop(), 0);
  EXPECT_LT(after - before, 100u);
  raise(SIGPROF);
}

TEST(CpuProfiler, KeepsErrno) {
  ASSERT_EQ(start(4000), 0);
  uint64_t wrong = 0;
  for (uint64_t end = os::thread_cpu_ns() + 300 * kMillisecondNs; os::thread_cpu_ns() < end;) {
    errno = 4711;
    for (int i = 0; i < 1000; i++) asm volatile("" : "+r"(i));
    wrong += errno != 4711;
  }
  EXPECT_EQ(stop(), 0);
  EXPECT_EQ(wrong, 0u);
}

TEST(CpuProfiler, DoesNotInterruptARead) {
  CpuRequest request{1000, true};
  ASSERT_EQ(start_cpu_profile(request), CpuStartResult::kStarted);
  int pipes[2];
  ASSERT_EQ(pipe(pipes), 0);
  std::thread writer([&] {
    // The samples are of elapsed time: the timers interrupt both threads, which sleep.
    uint64_t enough = uint64_t{400} * kMillisecondNs;
    wait_until([enough] { return kSignalsComeLate || seen().all_ns() > enough; },
               "samples of threads that sleep");
    EXPECT_EQ(write(pipes[1], "x", 1), 1);
  });
  char letter;
  EXPECT_EQ(read(pipes[0], &letter, 1), 1) << errno;
  writer.join();
  EXPECT_EQ(stop(), 0);
  close(pipes[0]);
  close(pipes[1]);
}

// Starts and stops while threads start, allocate and end: there must be no deadlock and no lost
// session.
TEST(CpuProfiler, StartsAndStopsUnderLoad) {
  std::atomic<bool> done{false};
  Progress made;
  std::vector<std::thread> makers;
  for (int i = 0; i < 3; i++) {
    makers.emplace_back([&] {
      while (!done) {
        std::thread([] {
          std::vector<void*> blocks;
          for (size_t n = 0; n < 2000; n++) blocks.push_back(sm_malloc(n % 500));
          for (void* block : blocks) sm_free(block);
        }).join();
        made.advance();
      }
    });
  }
  for (int i = 0; i < 30; i++) {
    ASSERT_EQ(start(4000), 0);
    made.wait_for_more();
    EXPECT_TRUE(i % 3 != 0 || !seen().comments.empty());
    ASSERT_EQ(stop(), 0);
  }
  done = true;
  for (std::thread& maker : makers) maker.join();
  EXPECT_EQ(seemalloc_cpu_running(nullptr), 0);
}

TEST(CpuProfiler, ReportsRefusals) {
  {
    os::FailCalls refuse(SYS_timer_create, EAGAIN);
    EXPECT_EQ(start(100), EAGAIN);
    EXPECT_GE(refuse.refusals(), 1u);
  }
  EXPECT_EQ(seemalloc_cpu_running(nullptr), 0);
  EXPECT_GE(seen().number_before(" were refused one"), 1u);
  {
    os::FailCalls refuse(SYS_mmap, ENOMEM);
    EXPECT_EQ(start(100), ENOMEM);
    ProfileBytes bytes{};
    EXPECT_FALSE(cpu_profile(&bytes));
  }
  {
    os::FailCalls refuse(SYS_timer_settime, EINVAL);
    EXPECT_EQ(start(100), EAGAIN);
  }
}

// Without /proc the calling thread is profiled, and threads that allocate.
TEST(CpuProfiler, WorksWithoutProc) {
  if (kSignalsComeLate) GTEST_SKIP();
  os::FailCalls refuse(SYS_openat, ENOENT);
  ASSERT_EQ(start(500), 0);
  burn_a(100 * kMillisecondNs);
  std::thread([] {
    sm_free(sm_malloc(10));
    burn_b(100 * kMillisecondNs);
  }).join();
  ASSERT_EQ(stop(), 0);
  Seen profile = seen();
  EXPECT_EQ(profile.number_before(" had a timer"), 2u);
  EXPECT_GT(profile.ns(burn_a), 0u);
  EXPECT_GT(profile.ns(burn_b), 0u);
}

TEST(CpuProfiler, IsWrittenToAFile) {
  ASSERT_EQ(start(500), 0);
  burn_a(50 * kMillisecondNs);
  ASSERT_EQ(stop(), 0);
  std::string path = testing::TempDir() + "cpu_profiler_test." + std::to_string(getpid()) + ".pb";
  ASSERT_EQ(seemalloc_cpu_dump(path.c_str()), 0) << errno;
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  unlink(path.c_str());
  EXPECT_EQ(profile::decode(text.str()).types,
            (std::vector<std::string>{"samples/count", "cpu/nanoseconds"}));
}

}  // namespace
}  // namespace seemalloc

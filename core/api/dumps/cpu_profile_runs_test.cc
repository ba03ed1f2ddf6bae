// CPU profiles from signal to signal, a profile that is being written when the process ends, and
// profiles of a whole run in children of fork.
#include "core/api/dumps/cpu_profile_runs.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <thread>

#include "core/api/cpu/cpu_profiler.h"
#include "core/api/dumps/dump.h"
#include "core/api/malloc/test_api.h"
#include "core/base/option_for_test.h"
#include "core/base/units.h"
#include "core/os/kernel/fault.h"
#include "core/os/kernel/waits_for_test.h"
#include "core/profile/pprof/decoder_for_test.h"

namespace seemalloc {
namespace {

using options::Id;
using options::OptionForTest;

void choose(Id id, const std::string& value) {
  FixedText<256> problem;
  ASSERT_TRUE(options::set(id, value.c_str(), value.size(), problem)) << problem.c_str();
}

// A full named pipe: a writer waits until it is read.
class FullPipe {
 public:
  FullPipe() {
    char pattern[] = "/tmp/cpu_profile_runs_test.XXXXXX";
    folder_ = mkdtemp(pattern);
    EXPECT_EQ(mkfifo(path().c_str(), 0600), 0);
    fd_ = open(path().c_str(), O_RDWR | O_NONBLOCK);
    char page[4096] = {};
    while (::write(fd_, page, sizeof(page)) > 0) {
    }
  }
  ~FullPipe() {
    close(fd_);
    unlink(path().c_str());
    rmdir(folder_.c_str());
  }
  std::string path() const { return folder_ + "/pipe"; }
  // Reads until stop_reading() is called by another thread.
  void read_all() {
    char page[65536];
    while (!stop_) {
      pollfd readable{fd_, POLLIN, 0};
      poll(&readable, 1, -1);
      while (read(fd_, page, sizeof(page)) > 0) {
      }
    }
  }
  void stop_reading() {
    stop_ = true;
    EXPECT_EQ(::write(fd_, "", 1), 1);  // ends the poll
  }

 private:
  std::atomic<bool> stop_{false};
  std::string folder_;
  int fd_ = -1;
};

void toggle() {
  raise(SIGUSR2);
  handle_cpu_signal();
}

TEST(CpuRuns, SignalNeedsTheHelper) {
  OptionForTest helper(Id::helper, "0"), signal(Id::cpu_signal, "12");
  testing::internal::CaptureStderr();
  start_cpu_run();
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "seemalloc: cpu_signal: no helper thread handles the signal (helper:0); ignored\n");
}

// The helper thread writes when the second signal arrives; if the process ended meanwhile, the file
// would be lost.
TEST(CpuRuns, TheEndWaitsForTheHelper) {
  FullPipe pipe;
  choose(Id::cpu_profile, pipe.path());
  choose(Id::cpu_signal, std::to_string(SIGUSR2));
  ASSERT_TRUE(start_cpu_run());
  toggle();
  uint64_t before = dump_statistics().written;
  CallWatch watch;
  std::thread helper([&] {
    watch.expect_by_this_thread(SYS_ppoll);  // where it waits for the pipe's reader
    toggle();
  });
  watch.wait_for(1);
  std::thread reader([&] {
    watch.wait_for(2);
    pipe.read_all();
  });
  watch.expect_by_this_thread(SYS_futex);  // where it waits for the helper
  end_cpu_run();
  EXPECT_EQ(dump_statistics().written, before + 1);
  helper.join();
  pipe.stop_reading();
  reader.join();
}

// A run that writes to the pipe until it is emptied.
class BlockedWriter {
 public:
  BlockedWriter()
      : file_(Id::cpu_profile, pipe_.path().c_str()),
        signal_(Id::cpu_signal, std::to_string(SIGUSR2).c_str()) {
    testing::internal::CaptureStderr();
    EXPECT_TRUE(start_cpu_run());
    // The signal handler of TheEndWaitsForTheHelper may still be installed, which is reported.
    testing::internal::GetCapturedStderr();
    toggle();
    EXPECT_TRUE(cpu_report().running);
  }
  // Starts a thread and returns when it waits for the pipe's reader.
  template <typename F>
  std::thread start_writer(F writes) {
    return start(SYS_ppoll, writes);
  }
  // Starts a thread and returns when it waits for the writer.
  template <typename F>
  std::thread start_waiter(F waits) {
    return start(SYS_futex, waits);
  }
  // Empties the pipe until the threads have finished.
  void drain_until_joined(std::thread& one, std::thread& other) {
    std::thread reader([&] { pipe_.read_all(); });
    one.join();
    other.join();
    pipe_.stop_reading();
    reader.join();
  }

 private:
  template <typename F>
  std::thread start(long call, F body) {
    std::thread thread([this, call, body] {
      watch_.expect_by_this_thread(call);
      body();
    });
    watch_.wait_for(++started_);
    return thread;
  }
  FullPipe pipe_;
  OptionForTest file_, signal_;
  CallWatch watch_;
  int started_ = 0;
};

// If stop did not wait for a flush in progress, the flush's older file would replace the complete
// one.
TEST(CpuRuns, StopWaitsForAFlush) {
  BlockedWriter run;
  std::thread flush = run.start_writer([] { EXPECT_TRUE(flush_cpu_run()); });
  std::thread stop = run.start_waiter([] { EXPECT_TRUE(stop_cpu_run()); });
  EXPECT_TRUE(cpu_run_is_running());
  EXPECT_TRUE(cpu_report().running);
  run.drain_until_joined(flush, stop);
  EXPECT_FALSE(cpu_report().running);
  EXPECT_FALSE(flush_cpu_run());
}

// If a signal started a profile while the previous one is being written, the new one would be
// written as the previous one.
TEST(CpuRuns, SignalStartsNoneBeforeTheLastIsWritten) {
  BlockedWriter run;
  std::thread stop = run.start_writer([] { EXPECT_TRUE(stop_cpu_run()); });
  std::thread helper = run.start_waiter(toggle);
  EXPECT_FALSE(cpu_report().running);
  run.drain_until_joined(stop, helper);
  EXPECT_TRUE(cpu_report().running);
  EXPECT_TRUE(stop_cpu_run());
}

// ---- children of fork ----

namespace fs = std::filesystem;

uint64_t real_cpu_ns() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<uint64_t>(t.tv_sec) * kSecondNs + static_cast<uint64_t>(t.tv_nsec);
}

// Uses this much CPU time, while the test clock stands still.
void burn(uint64_t ns) {
  for (uint64_t end = real_cpu_ns() + ns; real_cpu_ns() < end;) {
    for (int i = 0; i < 20000; i++) asm volatile("" : "+r"(i));
  }
}

// Allocates a block 200 times.
void allocate_repeatedly() {
  for (int i = 0; i < 200; i++) sm_free(sm_malloc(100000));
}

// Lives longer, by the test clock, than the grace period after which the profile of a forked child
// continues.
void outlive_grace_period() {
  os::advance_test_clock(150 * kMillisecondNs);
  allocate_repeatedly();
}

// Profiles of a whole run that forks, with the files in a directory of its own.
class Forked : public testing::Test {
 protected:
  void SetUp() override {
#ifdef __SANITIZE_THREAD__
    GTEST_SKIP() << "the sanitizer allows no threads after a fork";
#endif
    char pattern[] = "/tmp/cpu_profile_runs_test.XXXXXX";
    folder_ = mkdtemp(pattern);
    allocate_repeatedly();
  }
  void TearDown() override { fs::remove_all(folder_); }
  std::string in(const std::string& name) const { return folder_ + "/" + name; }
  std::set<std::string> files() const {
    std::set<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder_)) names.insert(entry.path().filename());
    return names;
  }
  int64_t interrupts_in(const std::string& name) const {
    std::ifstream file(in(name));
    int64_t sum = 0;
    for (const auto& row : profile::rows_of(std::string(std::istreambuf_iterator<char>(file), {})))
      sum += row.values[0];
    return sum;
  }

  std::string folder_;
};

// Runs `what` in a child, then what seemalloc does at exit. Returns the child's process id if its
// status is 0, else 0.
template <typename F>
pid_t in_child(F what) {
  os::advance_test_clock(0);  // a child on a busy machine must not seem to have stayed
  pid_t child = fork();
  if (child == 0) {
    bool good = what();
    end_cpu_run();
    _exit(good ? 0 : 1);
  }
  int status = 1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  return status == 0 ? child : 0;
}

TEST_F(Forked, ContinuesInItsOwnFile) {
  OptionForTest no_signal(Id::cpu_signal, "0"), file(Id::cpu_profile, in("p").c_str());
  ASSERT_TRUE(start_cpu_run());
  pid_t child = in_child([] {
    outlive_grace_period();
    burn(300 * kMillisecondNs);
    return cpu_report().running;
  });
  std::string own = "p_" + std::to_string(child);
  EXPECT_EQ(files(), std::set<std::string>{own});
  EXPECT_GT(interrupts_in(own), 5);
  EXPECT_TRUE(cpu_report().running) << "the parent's";
  EXPECT_TRUE(stop_cpu_run());
  EXPECT_EQ(files(), (std::set<std::string>{"p", own}));
}

// Also through a child that exits within the grace period. A file name that contains the process id
// is not changed.
TEST_F(Forked, GrandchildrenContinue) {
  OptionForTest no_signal(Id::cpu_signal, "0"), file(Id::cpu_profile, in("100%%_%p.pb").c_str());
  ASSERT_TRUE(start_cpu_run());
  in_child([] {
    return in_child([] {
             outlive_grace_period();
             burn(100 * kMillisecondNs);
             return cpu_report().running;
           }) != 0;
  });
  ASSERT_EQ(files().size(), 1u);
  EXPECT_EQ(files().begin()->rfind("100%_", 0), 0u) << *files().begin();
  EXPECT_EQ(files().begin()->find(std::to_string(getpid())), std::string::npos) << *files().begin();
  EXPECT_TRUE(stop_cpu_run());
}

// As programs that start others do: all signals get their default actions before exec. SIGPROF's
// default ends the process.
TEST_F(Forked, IsNotInterruptedInTheGracePeriod) {
  OptionForTest no_signal(Id::cpu_signal, "0"), file(Id::cpu_profile, in("p").c_str()),
      often(Id::cpu_frequency, "1000");
  ASSERT_TRUE(start_cpu_run());
  in_child([] {
    signal(SIGPROF, SIG_DFL);
    burn(60 * kMillisecondNs);
    return !cpu_report().running;
  });
  EXPECT_EQ(files(), std::set<std::string>{});
  EXPECT_TRUE(stop_cpu_run());
}

TEST_F(Forked, IsStoppedBeforeItContinues) {
  OptionForTest no_signal(Id::cpu_signal, "0"), file(Id::cpu_profile, in("p").c_str());
  ASSERT_TRUE(start_cpu_run());
  in_child([] {
    bool stopped = stop_cpu_run() && !stop_cpu_run();
    outlive_grace_period();
    return stopped && !cpu_report().running;
  });
  EXPECT_EQ(files(), std::set<std::string>{});
  EXPECT_TRUE(stop_cpu_run());
}

// A profile that a signal started is the parent's alone; another signal starts one in the child.
TEST_F(Forked, RunStartedBySignalIsNotContinued) {
  OptionForTest by_signal(Id::cpu_signal, std::to_string(SIGUSR2).c_str()),
      file(Id::cpu_profile, in("p").c_str());
  testing::internal::CaptureStderr();
  ASSERT_TRUE(start_cpu_run());
  // The signal handler of TheEndWaitsForTheHelper may still be installed, which is reported.
  testing::internal::GetCapturedStderr();
  toggle();
  ASSERT_TRUE(cpu_report().running);
  pid_t child = in_child([] {
    outlive_grace_period();
    if (cpu_report().running) return false;
    raise(SIGUSR2);
    // The child's helper thread follows it.
    return wait_until([] { return cpu_report().running; }, "the helper thread starts a profile");
  });
  EXPECT_EQ(files(), std::set<std::string>{"p_" + std::to_string(child)});
  EXPECT_TRUE(stop_cpu_run());
}

}  // namespace
}  // namespace seemalloc

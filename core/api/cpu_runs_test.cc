// CPU profiles from signal to signal, and what becomes of one that is being written when the process ends.
#include "core/api/cpu_runs.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <thread>

#include "core/api/cpu_profiler.h"
#include "core/api/dump.h"
#include "core/base/option_for_test.h"
#include "core/base/units.h"
#include "core/os/os.h"

namespace seemalloc {
namespace {

using options::Id;
using options::OptionForTest;

void choose(Id id, const std::string& value) {
  FixedText<256> problem;
  ASSERT_TRUE(options::set(id, value.c_str(), value.size(), problem)) << problem.c_str();
}

// A pipe by name that is full: who writes to it waits until somebody reads.
class FullPipe {
 public:
  FullPipe() {
    char pattern[] = "/tmp/cpu_runs_test.XXXXXX";
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
  void empty() {
    char page[65536];
    while (read(fd_, page, sizeof(page)) > 0) {
    }
  }

 private:
  std::string folder_;
  int fd_ = -1;
};

void toggle() {
  raise(SIGUSR2);
  follow_cpu_signal();
}

TEST(CpuRuns, WithoutAHelperNobodyFollowsTheSignal) {
  OptionForTest helper(Id::helper, "0"), signal(Id::cpu_signal, "12");
  testing::internal::CaptureStderr();
  start_cpu_run();
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "seemalloc: cpu_signal: nobody would follow the signal with helper:0; ignored\n");
}

// The helper writes when the second signal comes; the process that ends meanwhile would lose the file.
TEST(CpuRuns, TheEndWaitsForTheHelper) {
  FullPipe pipe;
  choose(Id::cpu_profile, pipe.path());
  choose(Id::cpu_signal, std::to_string(SIGUSR2));
  ASSERT_TRUE(start_cpu_run());
  toggle();
  uint64_t before = dump_statistics().written;
  std::thread helper(toggle);
  os::pause(100 * kMillisecond_ns);
  std::thread reader([&] {
    os::pause(300 * kMillisecond_ns);
    for (int i = 0; i < 100; i++, os::pause(10 * kMillisecond_ns)) pipe.empty();
  });
  end_cpu_run();
  EXPECT_EQ(dump_statistics().written, before + 1);
  helper.join();
  reader.join();
}

// A run that writes to the pipe until it is emptied.
class BlockedWriter {
 public:
  BlockedWriter() : file_(Id::cpu_profile, pipe_.path().c_str()), signal_(Id::cpu_signal, std::to_string(SIGUSR2).c_str()) {
    testing::internal::CaptureStderr();
    EXPECT_TRUE(start_cpu_run());
    testing::internal::GetCapturedStderr();  // the first test's handler of the signal may be there
    toggle();
    EXPECT_TRUE(cpu_report().running);
  }
  // Empties it until the threads are through.
  void let_go(std::thread& one, std::thread& other) {
    std::atomic<bool> through{false};
    std::thread reader([&] {
      for (; !through; os::pause(kMillisecond_ns)) pipe_.empty();
    });
    one.join();
    other.join();
    through = true;
    reader.join();
  }

 private:
  FullPipe pipe_;
  OptionForTest file_, signal_;
};

// Its older file would take the place of the whole one.
TEST(CpuRuns, TheEndWaitsForAFlush) {
  BlockedWriter run;
  std::thread flush([] { EXPECT_TRUE(flush_cpu_run()); });
  os::pause(200 * kMillisecond_ns);
  std::thread stop([] { EXPECT_TRUE(stop_cpu_run()); });
  os::pause(200 * kMillisecond_ns);
  EXPECT_TRUE(cpu_report().running);
  run.let_go(flush, stop);
  EXPECT_FALSE(cpu_report().running);
  EXPECT_FALSE(flush_cpu_run());
}

// The new one would be written as the old.
TEST(CpuRuns, ASignalBeginsNoneBeforeTheLastIsWritten) {
  BlockedWriter run;
  std::thread stop([] { EXPECT_TRUE(stop_cpu_run()); });
  os::pause(200 * kMillisecond_ns);
  std::thread helper(toggle);
  os::pause(200 * kMillisecond_ns);
  EXPECT_FALSE(cpu_report().running);
  run.let_go(stop, helper);
  EXPECT_TRUE(cpu_report().running);
  stop_cpu_profile();
  forget_cpu_run_in_child();
}

}  // namespace
}  // namespace seemalloc

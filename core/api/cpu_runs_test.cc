// CPU profiles from signal to signal, and what becomes of one that is being written when the process ends.
#include "core/api/cpu_runs.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>
#include <thread>

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

}  // namespace
}  // namespace seemalloc

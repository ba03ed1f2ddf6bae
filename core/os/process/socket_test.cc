// Tests of descriptors with high numbers, and of writing to pipes and devices. The rest of socket.h
// is tested with the control socket (core/api/service/control_test.cc).
#include "core/os/process/socket.h"

#include <errno.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <utility>

#include "core/base/units.h"
#include "core/os/kernel/fault.h"

namespace seemalloc::os {
namespace {

int table_length() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    if (word != "FDSize:") continue;
    int length;
    return status >> length ? length : -1;
  }
  return -1;
}

int lowest_free() {
  int fd = dup(2);
  close(fd);
  return fd;
}

size_t open_files() {
  size_t count = 0;
  for ([[maybe_unused]] auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) count++;
  return count;
}

TEST(Descriptors, TheTableIsMadeLongEnoughAndStaysAsItIs) {
  EXPECT_EXIT(
      {
        // A process of its own: the table never becomes shorter.
        rlimit limit;
        getrlimit(RLIMIT_NOFILE, &limit);
        limit.rlim_cur = limit.rlim_max;
        // There is no such number here.
        if (limit.rlim_max <= 256 || setrlimit(RLIMIT_NOFILE, &limit) != 0) _exit(0);
        size_t open_before = open_files();
        int free_before = lowest_free();
        make_room_for_descriptors();
        _exit(table_length() > 256 && lowest_free() == free_before && open_files() == open_before
                  ? 0
                  : 1);
      },
      testing::ExitedWithCode(0), "");
}

TEST(Descriptors, WhereTheLimitIsLowerNothingIsLeftOpen) {
  EXPECT_EXIT(
      {
        rlimit limit;
        limit.rlim_cur = limit.rlim_max = 64;
        setrlimit(RLIMIT_NOFILE, &limit);
        size_t open_before = open_files();
        int length_before = table_length();
        make_room_for_descriptors();
        _exit(table_length() == length_before && open_files() == open_before ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
}

// A named pipe in a directory of its own, with a reader that has opened it and reads only when told
// to.
class NamedPipe {
 public:
  NamedPipe() {
    char pattern[] = "/tmp/socket_test.XXXXXX";
    folder_ = mkdtemp(pattern);
    EXPECT_EQ(mkfifo(path().c_str(), 0666), 0);
  }
  ~NamedPipe() {
    if (reader_ >= 0) close(reader_);
    std::filesystem::remove_all(folder_);
  }
  std::string path() const { return folder_ + "/pipe"; }
  void close_reader() { close(std::exchange(reader_, -1)); }
  int open_reader() { return reader_ = open(path().c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC); }

 private:
  std::string folder_;
  int reader_ = -1;
};

// Each wait for the reader takes a second of the test clock, and then the reader, if there is one,
// reads a page.
int drip_reader;
long pass_time_in_poll(long number) {
  if (number != SYS_ppoll) return 0;
  advance_test_clock(kSecondNs);
  char page[4096];
  if (drip_reader >= 0) EXPECT_GT(read(drip_reader, page, sizeof(page)), 0);
  return -EINTR;
}

TEST(SpecialFiles, AReaderIsNotWaitedForForLong) {
  NamedPipe pipe;
  std::string long_text(1 << 20, 'x');
  EXPECT_EQ(write_special_file(pipe.path().c_str(), "text", 4), -ENXIO)
      << "no reader has opened it";
  int reader = pipe.open_reader();
  EXPECT_EQ(write_special_file(pipe.path().c_str(), "text", 4), 0);
  drip_reader = -1;
  fault_hook = pass_time_in_poll;
  EXPECT_EQ(write_special_file(pipe.path().c_str(), long_text.data(), long_text.size()),
            -ETIMEDOUT);
  // A reader that reads a little again and again is not waited for without limit either.
  drip_reader = reader;
  std::string longer(64 << 20, 'x');
  EXPECT_EQ(write_special_file(pipe.path().c_str(), longer.data(), longer.size()), -ETIMEDOUT);
  fault_hook = nullptr;
}

TEST(SpecialFiles, AStrangersPipeGetsNothing) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root";
  NamedPipe pipe;
  ASSERT_EQ(chown(pipe.path().c_str(), 65534, 65534), 0);
  int reader = pipe.open_reader();
  EXPECT_EQ(write_special_file(pipe.path().c_str(), "text", 4), -EACCES);
  char c;
  EXPECT_EQ(read(reader, &c, 1), 0);
  EXPECT_EQ(write_special_file("/dev/null", "text", 4), 0);
}

TEST(SpecialFiles, FileThatReplacedAPipeIsNotTouched) {
  NamedPipe pipe;
  std::string file = pipe.path() + "'s neighbour";
  std::ofstream(file) << "ours";
  EXPECT_EQ(write_special_file(file.c_str(), "text", 4), -EACCES);
  std::string text;
  std::ifstream(file) >> text;
  EXPECT_EQ(text, "ours");
}

TEST(SpecialFiles, ClosedReaderRaisesNoSignal) {
  auto write_to_a_pipe_that_closes = [] {
    NamedPipe pipe;
    int reader = pipe.open_reader();
    std::thread closes([&] {
      pollfd readable{reader, POLLIN, 0};
      EXPECT_EQ(poll(&readable, 1, -1), 1);
      pipe.close_reader();
    });
    std::string text(1 << 20, 'x');
    int result = write_special_file(pipe.path().c_str(), text.data(), text.size());
    closes.join();
    return result;
  };
  EXPECT_EXIT(_exit(write_to_a_pipe_that_closes() == -EPIPE ? 0 : 1), testing::ExitedWithCode(0),
              "");
  EXPECT_EQ(write_to_a_pipe_that_closes(), -EPIPE);
  EXPECT_FALSE(is_signal_pending(SIGPIPE));
}

}  // namespace
}  // namespace seemalloc::os

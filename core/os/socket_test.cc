// Descriptors that are out of the program's way. The rest of socket.h is tested with the control socket (tests/e2e).
#include "core/os/socket.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

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
        if (limit.rlim_max <= 256 || setrlimit(RLIMIT_NOFILE, &limit) != 0) _exit(0);  // there is no such number here
        size_t open_before = open_files();
        int free_before = lowest_free();
        make_room_for_descriptors();
        _exit(table_length() > 256 && lowest_free() == free_before && open_files() == open_before ? 0 : 1);
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

}  // namespace
}  // namespace seemalloc::os

// Executes its arguments, one after the other, and exits: for the ways in which profiles are
// written automatically.
//
//   keep:N, free   words.h
//   churn:N        allocates and frees N MiB
//   sleep:MS       sleeps, doing nothing
//   fail           requests too much memory; must get null
//   await:N        waits until there are N profiles in its directory
//   signal:N       sends itself a signal
//   until:N        churn:1 until a profile of this number exists in its directory, or has existed
//   fork:N         has a child do churn:N and exit, waits for it
//   exec:N         has a child start this program with churn:N
#include <fcntl.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "words.h"

extern "C" __attribute__((noinline)) void churn(size_t mib) {
  for (size_t i = 0; i < mib << 20; i += kEach) {
    void* volatile block = malloc(kEach);
    free(block);
  }
}

// The number of profiles, or the largest of their numbers. Not readdir, which allocates.
static size_t profiles(bool by_number = false) {
  struct Entry {
    uint64_t inode, offset;
    unsigned short length;
    unsigned char type;
    char name[];
  };
  alignas(Entry) char buffer[32 << 10];
  size_t found = 0;
  int folder = open(".", O_RDONLY | O_DIRECTORY);
  for (long bytes; (bytes = syscall(SYS_getdents64, folder, buffer, sizeof(buffer))) > 0;) {
    for (long at = 0; at < bytes; at += reinterpret_cast<Entry*>(buffer + at)->length) {
      const char* name = reinterpret_cast<Entry*>(buffer + at)->name;
      const char* end = strstr(name, ".heap");
      if (end == nullptr || strstr(name, ".tmp.") != nullptr) continue;
      while (by_number && end > name && end[-1] != '.') end--;
      found = by_number ? std::max<size_t>(found, strtoul(end, nullptr, 10)) : found + 1;
    }
  }
  close(folder);
  return found;
}

static bool await(size_t count) {
  for (int i = 0; i < 300000; i++) {
    if (profiles() >= count) return true;
    usleep(1000);
  }
  return false;
}

static bool until(size_t number) {
  for (int i = 0; i < 300000; i++) {
    if (profiles(true) >= number) return true;
    churn(1);
    usleep(1000);
  }
  return false;
}

static int in_child(const char* program, size_t mib, bool start) {
  fflush(nullptr);
  pid_t child = fork();
  if (child == 0) {
    std::string command = "churn:" + std::to_string(mib);
    if (start) execl(program, program, command.c_str(), nullptr);
    churn(mib);
    exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  printf("child %d\n", child);
  return status;
}

int main(int, char** argv) {
  return do_words(argv, [&](std::string_view word, size_t number) {
    if (word == "churn") churn(number);
    if (word == "sleep") usleep(static_cast<useconds_t>(number * 1000));
    if (word == "fail" && malloc(static_cast<size_t>(PTRDIFF_MAX)) != nullptr) return 1;
    if (word == "fail") {
      void* volatile block = malloc(size_t{1} << 46);
      if (block != nullptr) return 1;
    }
    if (word == "signal") raise(static_cast<int>(number));
    if (word == "await" && !await(number)) return 3;
    if (word == "until" && !until(number)) return 4;
    if ((word == "fork" || word == "exec") && in_child(argv[0], number, word == "exec") != 0)
      return 2;
    return 0;
  });
}

// Does what its arguments say, one after the other, and exits: for the ways in which profiles are written by themselves.
//   keep:N     allocates N MiB in blocks of 64 KiB and keeps them      churn:N  allocates and frees N MiB
//   free       frees what was kept                                     fail     asks for more than there is; must get null
//   sleep:MS   sleeps, doing nothing                                   signal:N sends itself a signal
//   await:N    waits until there are N profiles in its folder
//   fork:N     has a child do churn:N and exit, waits for it           exec:N   has a child start this program with churn:N
#include <fcntl.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

constexpr size_t kEach = 64 << 10;
static void* kept[1 << 16];
static size_t count;

extern "C" __attribute__((noinline)) void keep(size_t mib) {
  for (size_t i = 0; i < mib << 20; i += kEach) {
    kept[count] = malloc(kEach);
    memset(kept[count++], 1, kEach);
  }
}

extern "C" __attribute__((noinline)) void churn(size_t mib) {
  for (size_t i = 0; i < mib << 20; i += kEach) {
    void* volatile block = malloc(kEach);
    free(block);
  }
}

// Not readdir, which allocates.
static size_t profiles() {
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
      found += strstr(name, ".heap") != nullptr && strstr(name, ".tmp.") == nullptr;
    }
  }
  close(folder);
  return found;
}

static bool await(size_t count) {
  for (int i = 0; i < 20000; i++) {
    if (profiles() >= count) return true;
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
  for (char** at = argv + 1; *at != nullptr; at++) {
    std::string word = *at;
    size_t colon = word.find(':');
    size_t number = colon == std::string::npos ? 0 : strtoul(word.c_str() + colon + 1, nullptr, 10);
    word = word.substr(0, colon);
    if (word == "keep") keep(number);
    if (word == "churn") churn(number);
    if (word == "sleep") usleep(static_cast<useconds_t>(number * 1000));
    if (word == "free") {
      while (count > 0) free(kept[--count]);
    }
    if (word == "fail" && malloc(static_cast<size_t>(PTRDIFF_MAX)) != nullptr) return 1;
    if (word == "fail") {
      void* volatile block = malloc(size_t{1} << 46);
      if (block != nullptr) return 1;
    }
    if (word == "signal") raise(static_cast<int>(number));
    if (word == "await" && !await(number)) return 3;
    if ((word == "fork" || word == "exec") && in_child(argv[0], number, word == "exec") != 0) return 2;
  }
}

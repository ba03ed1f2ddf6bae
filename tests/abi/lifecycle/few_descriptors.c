// A program that lists its open descriptors finds few that belong to the allocator: only those of
// docs/sandboxes.md, none with a low number, and none that its children inherit. The heap is so
// large that every part of the helper thread works.
#include <fcntl.h>
#include <stdbool.h>

#include "expect.h"

// kMost: the control socket, the report of memory pressure, two files with the limit of a cgroup,
// and one file for the usage of each of up to four cgroups.
enum { kNumbers = 1024, kLow = 256, kMost = 8, kBlocks = 160000, kBytes = 1000, kRounds = 40 };

static bool is_open[kNumbers];
static int open_now(int from, int to) {
  int count = 0;
  for (int fd = from; fd < to; fd++) count += fcntl(fd, F_GETFD) != -1;
  return count;
}

static bool ends_with(const char* text, const char* end) {
  size_t length = strlen(text), end_length = strlen(end);
  return length >= end_length && strcmp(text + length - end_length, end) == 0;
}

static const char* const kPermanent[] = {
    "/memory.max",     "/memory.high",           "/memory.limit_in_bytes",
    "/memory.current", "/memory.usage_in_bytes", "/proc/pressure/memory",
    "/memory.pressure"};
// Open while they are in use.
static const char* const kTemporary[] = {"/memory.stat", "/pagemap"};

// 0 if the descriptor may stay open, 1 if it may be open for a while.
static int kind_of(int fd) {
  char path[64], file[512];
  snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
  ssize_t length = readlink(path, file, sizeof(file) - 1);
  if (length < 0) return 1;  // closed meanwhile
  file[length] = 0;
  if (strncmp(file, "socket:", 7) == 0) return 0;
  for (size_t i = 0; i < sizeof(kPermanent) / sizeof(kPermanent[0]); i++) {
    if (ends_with(file, kPermanent[i])) return 0;
  }
  for (size_t i = 0; i < sizeof(kTemporary) / sizeof(kTemporary[0]); i++) {
    if (ends_with(file, kTemporary[i])) return 1;
  }
  dprintf(2, "descriptor %d is open: %s\n", fd, file);
  EXPECT(!"a known file");
  return 1;
}

int main(void) {
  expect_subject();
  int low = open_now(0, kLow);
  for (int fd = kLow; fd < kNumbers; fd++) is_open[fd] = fcntl(fd, F_GETFD) != -1;
  for (int i = 0; i < kBlocks; i++) EXPECT(marked(malloc(kBytes), kBytes));
  int rounds_at_rest = 0;
  for (int round = 0; round < kRounds || rounds_at_rest == 0; round++) {
    EXPECT(round < 4 * kRounds);
    // The program works: an idle one is left alone.
    for (int i = 0; i < 300; i++) {
      usleep(1000);
      free(marked(malloc(kBytes), kBytes));
    }
    EXPECT(open_now(0, kLow) <= low + 1);  // one is being opened, and moved to a high number
    int permanent = 0, temporary = 0;
    for (int fd = kLow; fd < kNumbers; fd++) {
      int flags = fcntl(fd, F_GETFD);
      if (flags == -1 || is_open[fd]) continue;
      EXPECT((flags & FD_CLOEXEC) != 0);
      kind_of(fd) == 0 ? permanent++ : temporary++;
    }
    EXPECT(permanent <= kMost);
    if (round >= kRounds / 2 && temporary == 0) rounds_at_rest++;
  }
  EXPECT(open_now(0, kLow) <= low + 1);
  return ok();
}

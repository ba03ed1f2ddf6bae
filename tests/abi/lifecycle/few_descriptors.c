// A program that lists its open descriptors finds few that belong to the allocator, none with a low
// number, and none that its children inherit.
#include <fcntl.h>
#include <stdbool.h>

#include "expect.h"

enum { kNumbers = 1024, kLow = 256, kMax = 2 };

static bool is_open[kNumbers];
static int open_now(int from) {
  int count = 0;
  for (int fd = from; fd < kNumbers; fd++) count += fcntl(fd, F_GETFD) != -1;
  return count;
}

int main(void) {
  expect_subject();
  int low = open_now(0) - open_now(kLow), high = 0;
  for (int fd = kLow; fd < kNumbers; fd++) {
    is_open[fd] = fcntl(fd, F_GETFD) != -1;
    high += is_open[fd];
  }
  for (int i = 0; i < 20000; i++) EXPECT(marked(malloc(1000), 1000));
  for (int round = 0; round < 8; round++) {
    usleep(900000);
    EXPECT(open_now(0) - open_now(kLow) == low);
    EXPECT(open_now(kLow) - high <= kMax);
    for (int fd = kLow; fd < kNumbers; fd++) {
      int flags = fcntl(fd, F_GETFD);
      if (flags != -1 && !is_open[fd]) EXPECT((flags & FD_CLOEXEC) != 0);
    }
  }
  return ok();
}

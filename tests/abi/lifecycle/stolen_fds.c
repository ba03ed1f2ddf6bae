// A program that closes every descriptor and opens its own under the same numbers: the allocator
// must not touch those, in the process or in its forked children. Linux closes ranges since 5.9.
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "expect.h"

enum { kFiles = 300 };

static void expect_open(const int* mine) {
  for (int i = 0; i < kFiles; i++) {
    char byte = 0;
    EXPECT(write(mine[i], "x", 1) == 1);
    EXPECT(recv(mine[i ^ 1], &byte, 1, MSG_DONTWAIT) == 1 && byte == 'x');
  }
}

int main(void) {
  expect_subject();
  free(malloc(20 << 20));
  // Enough for a helper thread and its socket.
  for (int i = 0; i < 3000; i++) (void)!malloc(4000);
  usleep(700000);
  if (syscall(SYS_close_range, 3, ~0U, 0) != 0) cannot("no close_range");
  int mine[kFiles];
  for (int i = 0; i < kFiles; i += 2) {
    int pair[2];
    EXPECT(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    mine[i] = pair[0];
    mine[i + 1] = pair[1];
  }
  // Immediately, before the allocator could notice; then again after it has.
  pid_t pid = fork();
  if (pid == 0) {
    expect_open(mine);
    _exit(0);
  }
  int status = 0;
  EXPECT(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0);
  usleep(1200000);
  expect_open(mine);
  return ok();
}

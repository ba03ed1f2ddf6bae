// For programs of lifecycle/ that look at seemalloc's helper thread and control socket. Include
// expect.h or filter.h as well.
#pragma once

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

// Whether the allocator under test is seemalloc.
static inline int has_seemalloc(void) {
  const char* subject = getenv("EXPECT_SEEMALLOC");
  return subject != NULL && *subject != 0;
}

static inline void rest(long milliseconds) {
  struct timespec left = {milliseconds / 1000, milliseconds % 1000 * 1000000};
  while (nanosleep(&left, &left) != 0) {
  }
}

// Whether the control socket of this process answers its user.
static inline int socket_answers(void) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  snprintf(address.sun_path, sizeof(address.sun_path), "/tmp/seemalloc-%d/%d.sock", (int)geteuid(),
           (int)getpid());
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  char answer[64];
  int answers = connect(fd, (struct sockaddr*)&address, sizeof(address)) == 0 &&
                write(fd, "prove\n", 6) == 6 && read(fd, answer, sizeof(answer)) > 3 &&
                memcmp(answer, "ok ", 3) == 0;
  close(fd);
  return answers;
}

// One thread registers fork handlers, so that the C library's list of them grows, while another forks. In many processes, since the list grows
// only a few times in each.
#include <pthread.h>
#include <sys/wait.h>

#include "expect.h"

enum { kProcesses = 60, kForks = 40, kHandlers = 3000 };

static int forks_done;

static void handler(void) { free(malloc(100)); }

static void* register_handlers(void* unused) {
  for (int i = 0; i < kHandlers && !__atomic_load_n(&forks_done, __ATOMIC_RELAXED); i++) {
    EXPECT(pthread_atfork(handler, handler, handler) == 0);
  }
  return unused;
}

static int wait_for(pid_t child) {
  int status;
  EXPECT(child > 0 && waitpid(child, &status, 0) == child);
  return status;
}

static void fork_beside_registrations(void) {
  alarm(120);
  pthread_t thread;
  EXPECT(pthread_create(&thread, NULL, register_handlers, NULL) == 0);
  for (int i = 0; i < kForks; i++) {
    pid_t child = fork();
    if (child == 0) {
      if (i % 8 == 0) EXPECT(pthread_atfork(handler, handler, handler) == 0);  // nobody else registers there
      _exit(0);
    }
    EXPECT(wait_for(child) == 0);
  }
  __atomic_store_n(&forks_done, 1, __ATOMIC_RELAXED);
  EXPECT(pthread_join(thread, NULL) == 0);
}

int main(void) {
  expect_subject();
  for (int i = 0; i < kProcesses; i++) {
    pid_t child = fork();
    if (child == 0) {
      fork_beside_registrations();
      _exit(0);
    }
    EXPECT(wait_for(child) == 0);
  }
  return ok();
}

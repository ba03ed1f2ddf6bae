// Fork handlers are registered while another thread forks.
//   fork_registers grows     the C library's list of handlers grows; in many processes, since it
//   grows only a few times in each
//   fork_registers waits     a handler waits for a thread that registers another
#include <gnu/libc-version.h>
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
      // No other thread registers there.
      if (i % 8 == 0) EXPECT(pthread_atfork(handler, handler, handler) == 0);
      _exit(0);
    }
    EXPECT(wait_for(child) == 0);
  }
  __atomic_store_n(&forks_done, 1, __ATOMIC_RELAXED);
  EXPECT(pthread_join(thread, NULL) == 0);
}

static void grow_in_processes(void) {
  for (int i = 0; i < kProcesses; i++) {
    pid_t child = fork();
    if (child == 0) {
      fork_beside_registrations();
      _exit(0);
    }
    EXPECT(wait_for(child) == 0);
  }
}

static int handlers_run;

static void* register_one(void* unused) {
  EXPECT(pthread_atfork(handler, handler, handler) == 0);
  return unused;
}

static void wait_for_registration(void) {
  pthread_t thread;
  EXPECT(pthread_create(&thread, NULL, register_one, NULL) == 0 && pthread_join(thread, NULL) == 0);
  handlers_run++;
}

static void fork_with_waiting_handler(void) {
  int major = 0, minor = 0;
  EXPECT(sscanf(gnu_get_libc_version(), "%d.%d", &major, &minor) == 2);
  if (major == 2 && minor < 36)
    cannot("this C library holds the lock of its list while handlers run");
  alarm(300);
  EXPECT(pthread_atfork(wait_for_registration, handler, handler) == 0);
  for (int i = 0; i < 2; i++) {
    pid_t child = fork();
    if (child == 0) {
      register_one(NULL);
      _exit(0);
    }
    EXPECT(wait_for(child) == 0);
  }
  EXPECT(handlers_run == 2);
  register_one(NULL);
}

int main(int argc, char** argv) {
  EXPECT(argc == 2);
  expect_subject();
  strcmp(argv[1], "waits") == 0 ? fork_with_waiting_handler() : grow_in_processes();
  return ok();
}

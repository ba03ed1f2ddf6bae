// The allocator's helper thread takes no signal of the program: it blocks all signals, and a thread
// of the program handles those sent to the process. Usage: helper_thread.
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>

#include "expect.h"

enum { kMiB = 1 << 20 };

static char text[1 << 16];
static const char* contents(const char* path) {
  int fd = open(path, O_RDONLY);
  if (fd < 0) return NULL;
  ssize_t length = read(fd, text, sizeof(text) - 1);
  close(fd);
  text[length < 0 ? 0 : length] = 0;
  return text;
}

static int helper_id(void) {
  DIR* tasks = opendir("/proc/self/task");
  if (tasks == NULL) cannot("no /proc");
  int found = 0;
  for (struct dirent* task; found == 0 && (task = readdir(tasks)) != NULL;) {
    char path[300];
    snprintf(path, sizeof(path), "/proc/self/task/%s/comm", task->d_name);
    const char* name = task->d_name[0] != '.' ? contents(path) : NULL;
    if (name != NULL && strcmp(name, "seemalloc\n") == 0) found = atoi(task->d_name);
  }
  closedir(tasks);
  return found;
}

static void expect_all_blocked(int thread) {
  char path[64];
  snprintf(path, sizeof(path), "/proc/self/task/%d/status", thread);
  const char* at = contents(path);
  EXPECT(at != NULL && (at = strstr(at, "SigBlk:")) != NULL);
  unsigned long blocked = strtoul(at + strlen("SigBlk:"), NULL, 16);
  for (int s = 1; s <= SIGRTMAX; s++) {
    // The C library's own signals are exempt.
    int possible = s != SIGKILL && s != SIGSTOP && (s < 32 || s >= SIGRTMIN);
    if (possible) EXPECT((blocked >> (s - 1) & 1) != 0);
  }
}

static volatile sig_atomic_t handled_by;
static void handle(int signal) {
  (void)signal;
  handled_by = (sig_atomic_t)syscall(SYS_gettid);
}

int main(void) {
  expect_subject();
  for (int i = 0; i < 8; i++) free_marked(marked(malloc(kMiB), kMiB), kMiB);
  for (int i = 0; i < 100000; i++) free(malloc(512 + (size_t)i % 4096));
  void* large = marked(malloc(8 * kMiB), 8 * kMiB);
  int helper = 0;
  for (int i = 0; i < 1000 && (helper = helper_id()) == 0; i++) {
    struct timespec rest = {0, 10000000};
    nanosleep(&rest, NULL);
  }
  EXPECT(helper != 0);
  expect_all_blocked(helper);
  // This thread blocks the signal: if the helper thread did not block it, the helper would have to
  // take it.
  sigset_t one;
  sigemptyset(&one);
  sigaddset(&one, SIGUSR2);
  signal(SIGUSR2, handle);
  pthread_sigmask(SIG_BLOCK, &one, NULL);
  EXPECT(kill(getpid(), SIGUSR2) == 0);
  struct timespec rest = {0, 200000000};
  nanosleep(&rest, NULL);
  EXPECT(handled_by == 0);
  pthread_sigmask(SIG_UNBLOCK, &one, NULL);
  EXPECT(handled_by == (sig_atomic_t)syscall(SYS_gettid));
  free_marked(large, 8 * kMiB);
  return ok();
}

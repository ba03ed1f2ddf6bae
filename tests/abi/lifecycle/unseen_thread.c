// Tests that a single-threaded program stays single-threaded for the C library while the helper
// thread works: stdio takes no locks, and shared_ptr counts without atomics. The helper thread
// returns memory and serves the socket. Usage: unseen_thread WAY.
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/single_threaded.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>

#include "expect.h"
#include "helper.h"

enum {
  kMiB = 1 << 20,
  kBlocks = 100000,
  kBlockBytes = 1000,
  kNeedsLock = 128 /* of FILE::_flags2, glibc's libio.h */
};

// Makes the library treat this program as CPython, which counts threads after each fork.
__attribute__((visibility("default"))) const unsigned long Py_Version = 0x030C01F0;

static const char* contents(const char* path) {
  static char text[8192];
  int fd = open(path, O_RDONLY);
  if (fd < 0) cannot("no /proc");
  ssize_t length = read(fd, text, sizeof(text) - 1);
  close(fd);
  EXPECT(length > 0);
  text[length] = 0;
  return text;
}

// The number of threads as CPython reads it: field 20 of the line.
static int threads(void) {
  const char* at = strrchr(contents("/proc/self/stat"), ')');
  EXPECT(at != NULL);
  for (int field = 2; field < 20; field++) EXPECT((at = strchr(at + 1, ' ')) != NULL);
  return atoi(at);
}

static long resident_kib(void) {
  const char* at = strstr(contents("/proc/self/status"), "VmRSS:");
  EXPECT(at != NULL);
  return atol(at + strlen("VmRSS:"));
}

static void expect_one_thread_for_libc(void) {
  EXPECT(__libc_single_threaded != 0);
  EXPECT((stdout->_flags2 & kNeedsLock) == 0);
}

static void expect_helper(int others) {
  for (int i = 0; has_seemalloc() && i < 3000 && threads() != others + 2; i++) {
    free(malloc(2 * kMiB));
    rest(10);
  }
  EXPECT(threads() == others + (has_seemalloc() ? 2 : 1));
}

static char* blocks[kBlocks];
static void grow(void) {
  for (int i = 0; i < kBlocks; i++) blocks[i] = marked(malloc(kBlockBytes), kBlockBytes);
}
static void shrink(void) {
  for (int i = 0; i < kBlocks; i++) free_marked(blocks[i], kBlockBytes);
}

static void works(void) {
  grow();
  expect_helper(0);
  expect_one_thread_for_libc();
  long full = resident_kib();
  for (int i = 0; has_seemalloc() && i < 3000 && !socket_answers(); i++) rest(10);
  EXPECT(!has_seemalloc() || socket_answers());
  shrink();
  // The program is idle, so only the helper thread returns memory.
  for (int i = 0; has_seemalloc() && i < 3000 && resident_kib() > full / 4; i++) rest(10);
  EXPECT(!has_seemalloc() || resident_kib() <= full / 4);
  expect_one_thread_for_libc();
}

// Threads of the program start and end beside the helper thread; the C library knows of them.
static void* in_thread(void* none) {
  for (int i = 0; i < 1000; i++) free_marked(marked(malloc(5000), 5000), 5000);
  return none;
}
static void has_threads(void) {
  grow();
  expect_helper(0);
  for (int i = 0; i < 20; i++) {
    pthread_t thread;
    EXPECT(pthread_create(&thread, NULL, in_thread, NULL) == 0);
    EXPECT(__libc_single_threaded == 0);
    EXPECT(pthread_join(thread, NULL) == 0);
  }
  shrink();
}

// The last thread ends by a bare system call. The process then ends with the status of that thread.
static void bare_exit(void) {
  pid_t child = fork();
  if (child == 0) {
    grow();
    expect_helper(0);
    syscall(SYS_exit, 7);
  }
  int status;
  EXPECT(child > 0 && waitpid(child, &status, 0) == child);
  EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 7);
}

// pthread_exit of the only thread: the C library runs the exit handlers, and ends the process.
static void told(void) { _exit(8); }
static void last_exit(void) {
  pid_t child = fork();
  if (child == 0) {
    grow();
    expect_helper(0);
    atexit(told);
    pthread_exit(NULL);
  }
  int status;
  EXPECT(child > 0 && waitpid(child, &status, 0) == child);
  EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 8);
}

// CPython from 3.12 on warns after a fork of a process with several threads.
static void counted_fork(void) {
  grow();
  for (int i = 0; i < 20; i++) {
    if (i % 5 == 0) expect_helper(0);
    pid_t child = fork();
    if (child == 0) {
      shrink();
      _exit(0);
    }
    EXPECT(threads() == 1);
    int status;
    EXPECT(child > 0 && waitpid(child, &status, 0) == child && status == 0);
  }
  expect_helper(0);
}

// execve ends the helper thread and frees its stack. vfork does not affect it.
static void executes(void) {
  grow();
  expect_helper(0);
  pid_t child = vfork();
  if (child == 0) {
    execl("/proc/self/exe", "unseen_thread", "image", NULL);
    _exit(1);
  }
  int status;
  EXPECT(child > 0 && waitpid(child, &status, 0) == child && status == 0);
  EXPECT(threads() == (has_seemalloc() ? 2 : 1));
  execl("/proc/self/exe", "unseen_thread", "works", NULL);
  EXPECT(!"exec");
}
static void image(void) {
  EXPECT(threads() == 1);
  grow();
  expect_helper(0);
  _exit(0);  // reports nothing
}

// The program may handle a crash. A crash that it does not handle ends it.
static sigjmp_buf out;
static void on_crash(int signal) { siglongjmp(out, signal); }
static void crashes(void) {
  grow();
  expect_helper(0);
  struct sigaction action = {.sa_handler = on_crash};
  EXPECT(sigaction(SIGSEGV, &action, NULL) == 0 && sigaction(SIGABRT, &action, NULL) == 0);
  int seen = sigsetjmp(out, 1);
  static char* volatile nowhere;
  if (seen == 0) *nowhere = 1;
  EXPECT(seen == SIGSEGV);
  seen = sigsetjmp(out, 1);
  if (seen == 0) raise(SIGABRT);
  EXPECT(seen == SIGABRT);
  pid_t child = fork();
  if (child == 0) {
    signal(SIGABRT, SIG_DFL);
    grow();
    expect_helper(0);
    abort();
  }
  int status;
  EXPECT(child > 0 && waitpid(child, &status, 0) == child);
  EXPECT(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
  shrink();
}

int main(int argc, char** argv) {
  static const struct Way kWays[] = {{"works", works},
                                     {"has_threads", has_threads},
                                     {"bare_exit", bare_exit},
                                     {"last_exit", last_exit},
                                     {"counted_fork", counted_fork},
                                     {"executes", executes},
                                     {"image", image},
                                     {"crashes", crashes}};
  expect_subject();
  return argc == 2 && RUN_WAY(kWays, argv[1]) ? ok() : 2;
}

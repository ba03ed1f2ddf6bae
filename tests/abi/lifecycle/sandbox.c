// Under filters that end the process, or never answer, for each system call that is not in a short
// list: malloc's own, and those that the program itself makes. Also under filters that answer with
// errors.
//   sandbox WAY [PROGRAM ARGUMENT...]     PROGRAM is started by the ways `started...`; without it
//   this program, as `inside`
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>

#include "filter.h"
#include "helper.h"

enum { kMiB = 1 << 20, kBlocks = 512, kThreads = 4 };

// The calls that malloc may make. glibc's malloc also asks for the number of processors when a
// second thread starts.
static const int kOfMalloc[] = {SYS_mmap, SYS_munmap, SYS_mremap, SYS_madvise, SYS_futex};
static const int kOfGlibcsMalloc[] = {SYS_brk,       SYS_mprotect,   SYS_openat,
                                      SYS_read,      SYS_close,      SYS_sched_getaffinity,
                                      SYS_prlimit64, SYS_newfstatat, SYS_getrandom};
static const int kOfProgram[] = {SYS_write, SYS_exit_group, SYS_rt_sigreturn, SYS_clock_nanosleep};
// The calls for starting, joining and ending threads.
static const int kThreadFilters[] = {SYS_clone,           SYS_clone3, SYS_mprotect,
                                     SYS_set_robust_list, SYS_rseq,   SYS_rt_sigprocmask,
                                     SYS_rt_sigaction,    SYS_exit};
static const int kOfFork[] = {SYS_clone, SYS_set_robust_list, SYS_wait4, SYS_rt_sigprocmask};
// The calls of the dynamic linker and the C library before main, and of the beginning of the test.
static const int kOfStart[] = {SYS_execve,
                               SYS_brk,
                               SYS_openat,
                               SYS_read,
                               SYS_pread64,
                               SYS_close,
                               SYS_newfstatat,
                               SYS_fstat,
                               SYS_mprotect,
                               SYS_access,
                               SYS_faccessat,
                               SYS_arch_prctl,
                               SYS_set_tid_address,
                               SYS_set_robust_list,
                               SYS_rseq,
                               SYS_prlimit64,
                               SYS_getrandom,
                               SYS_readlink,
                               SYS_lseek};

static int list[kMaxCalls];
static size_t listed;
static void allow(const int* calls, size_t count) {
  for (size_t i = 0; i < count; i++) list[listed++] = calls[i];
}
#define ALLOW(calls) allow(calls, sizeof(calls) / sizeof(calls[0]))

static void say(const char* text) { EXPECT(write(1, text, strlen(text)) == (ssize_t)strlen(text)); }

// ---- uses of malloc ----

// Each size class and larger sizes, in any order, moved and zeroed.
static void use_all_sizes(unsigned long seed) {
  static __thread void* blocks[kBlocks];
  static __thread size_t sizes[kBlocks];
  for (int i = 0; i < 20000; i++) {
    unsigned at = random_below(&seed, kBlocks);
    if (blocks[at] != NULL) free_marked(blocks[at], sizes[at]);
    sizes[at] = i % 50 == 0 ? 1 + random_below(&seed, 3 * kMiB) : random_size(&seed);
    switch (random_below(&seed, 4)) {
      case 0: blocks[at] = malloc(sizes[at]); break;
      case 1: blocks[at] = calloc(1, sizes[at]); break;
      case 2: blocks[at] = aligned_alloc(64, (sizes[at] + 63) / 64 * 64); break;
      default: blocks[at] = realloc(malloc(100), sizes[at]); break;
    }
    marked(blocks[at], sizes[at]);
  }
  for (int i = 0; i < kBlocks; i++) {
    free(blocks[i]);
    blocks[i] = NULL;
  }
}

// Half a gigabyte is freed and allocated again: without system calls for huge pages, resident
// memory or processor time.
static void grow_and_shrink(void) {
  enum { kCount = 500 * kMiB / 1024 };
  void** blocks = malloc(kCount * sizeof(void*));
  for (int round = 0; round < 2; round++) {
    for (int i = 0; i < kCount; i++) blocks[i] = marked(malloc(1024), 1024);
    for (int i = 0; i < kCount; i++) free(blocks[i]);
    malloc_trim(0);
  }
  free(blocks);
  char* growing = NULL;
  for (size_t size = 1000; size < (64u << 20); size = size * 3 / 2) {
    growing = realloc(growing, size);
    EXPECT(growing != NULL);
    memset(growing, 1, size);
  }
  free(growing);
}

static void* in_thread(void* seed) {
  use_all_sizes((unsigned long)seed);
  return malloc(100);  // a block of a thread that has ended
}

static void use_threads(void) {
  pthread_t threads[kThreads];
  for (unsigned long i = 0; i < kThreads; i++)
    EXPECT(pthread_create(&threads[i], NULL, in_thread, (void*)(i + 1)) == 0);
  for (int i = 0; i < kThreads; i++) {
    void* block;
    EXPECT(pthread_join(threads[i], &block) == 0);
    free(block);
  }
}

static void use_fork(void) {
  void* block = marked(malloc(5000), 5000);
  pid_t child = fork();
  if (child == 0) {
    free_marked(block, 5000);
    use_all_sizes(7);
    _exit(0);
  }
  int status;
  EXPECT(child > 0 && waitpid(child, &status, 0) == child && status == 0);
  free_marked(block, 5000);
}

// ---- ways into the sandbox ----

static struct Filter filter;
static void enter_sandbox(enum InstallMethod method, unsigned others) {
  ALLOW(kOfMalloc);
  ALLOW(kOfProgram);
  if (getenv("EXPECT_SEEMALLOC") == NULL) ALLOW(kOfGlibcsMalloc);
  make_filter(&filter, list, listed, SECCOMP_RET_ALLOW, others);
  install(&filter, method);
}

// Threads from before the filter continue: they wait for each other by futex, the program's and the
// allocator's.
static volatile int go_on;
static void* waits_outside(void* seed) {
  use_all_sizes(3);
  while (!go_on) rest(1);
  return in_thread(seed);
}

static void warm_up(void) {
  use_all_sizes(1);
  void* huge = marked(malloc(64 * kMiB), 64 * kMiB);
  free(huge);
}

static void alone(enum InstallMethod method, unsigned others) {
  enter_sandbox(method, others);
  use_all_sizes(2);
  grow_and_shrink();
}
static void later_prctl(void) { alone(kByPrctl, SECCOMP_RET_KILL_PROCESS); }
static void later_seccomp(void) { alone(kBySeccomp, SECCOMP_RET_KILL_PROCESS); }
static void later_unanswered(void) { alone(kBySeccompWithListener, SECCOMP_RET_USER_NOTIF); }
static void later_warm(void) {
  warm_up();
  later_prctl();
  rest(700);  // several rounds of the helper thread
}
static void later_for_all(void) {
  warm_up();
  alone(kBySeccompForAll, SECCOMP_RET_KILL_PROCESS);
  rest(700);
}

// Threads from before, under a filter for all threads, and new ones.
static void threads_for_all(void) {
  ALLOW(kThreadFilters);
  pthread_t early;
  EXPECT(pthread_create(&early, NULL, waits_outside, (void*)9) == 0);
  warm_up();
  enter_sandbox(kBySeccompForAll, SECCOMP_RET_KILL_PROCESS);
  go_on = 1;
  use_threads();
  void* block;
  EXPECT(pthread_join(early, &block) == 0);
  free(block);
  grow_and_shrink();
  rest(700);
}

static void threads(void) {
  ALLOW(kThreadFilters);
  enter_sandbox(kByPrctl, SECCOMP_RET_KILL_PROCESS);
  use_threads();
  grow_and_shrink();
  use_threads();
}

static void forks(void) {
  ALLOW(kOfFork);
  enter_sandbox(kByPrctl, SECCOMP_RET_KILL_PROCESS);
  use_fork();
  grow_and_shrink();
  use_fork();
}

// A filter that no library sees: a small program makes no system call but those to get memory.
static void bare(void) {
  free(malloc(100));
  enter_sandbox(kBare, SECCOMP_RET_KILL_PROCESS);
  for (size_t size = 1; size <= 20000; size += size / 8 + 1) free(marked(malloc(size), size));
}

// The parent installs the filter. The dynamic linker opens files before the allocator runs.
static char** to_start;
static void start(const char* inside) {
  char* self[] = {(char*)"/proc/self/exe", (char*)inside, NULL};
  char** program = to_start != NULL ? to_start : self;
  execv(program[0], program);
  EXPECT(!"exec");
}

// Variables and files of containers indicate a runtime's filter, which answers with errors. Of two
// filters, one is not the runtime's.
static int looks_like_a_container(void) {
  return access("/.dockerenv", F_OK) == 0 || access("/run/.containerenv", F_OK) == 0;
}
static void leave_container(void) {
  unsetenv("KUBERNETES_SERVICE_HOST");
  unsetenv("container");
}
static void enter_container(void) {
  const char* variable = getenv("SANDBOX_VARIABLE");
  EXPECT(variable != NULL);
  leave_container();
  setenv(variable, "yes", 1);
}

static void enter_sandbox_for_program(int filters) {
  ALLOW(kOfStart);
  ALLOW(kThreadFilters);
  static const int kAnother[] = {SYS_seccomp, SYS_prctl};
  if (filters == 2) ALLOW(kAnother);
  enter_sandbox(kByPrctl, SECCOMP_RET_KILL_PROCESS);
  if (filters == 2) install(&filter, kByPrctl);
}
static void started(void) {
  leave_container();
  enter_sandbox_for_program(looks_like_a_container() ? 2 : 1);
  start("inside");
}
static void started_in_container(void) {
  enter_container();
  enter_sandbox_for_program(2);
  start("inside");
}

// As a container runtime does: some calls are refused, all others are allowed.
static void refuse_some(void) {
  static const int kRefused[] = {SYS_mount, SYS_umount2, SYS_ptrace, SYS_bpf, SYS_reboot};
  make_filter(&filter, kRefused, sizeof(kRefused) / sizeof(kRefused[0]), SECCOMP_RET_ERRNO | EPERM,
              SECCOMP_RET_ALLOW);
  install(&filter, kByPrctl);
}
static void contained(void) {
  enter_container();
  refuse_some();
  start("has_all");
}
static void not_contained(void) {
  leave_container();
  if (looks_like_a_container()) refuse_some();
  refuse_some();
  start("has_nothing");
}

static void inside(void) {
  use_all_sizes(2);
  grow_and_shrink();
  use_threads();
  rest(700);
}

// ---- the helper thread and its socket ----

static int has_helper(void) {
  static char status[8192];
  int fd = open("/proc/self/status", O_RDONLY);
  ssize_t length = read(fd, status, sizeof(status) - 1);
  close(fd);
  EXPECT(length > 0);
  status[length] = 0;
  return strstr(status, "Threads:\t2") != NULL;
}

static void has_helper_soon(int with_socket) {
  if (getenv("EXPECT_SEEMALLOC") == NULL) return;
  for (int i = 0; i < 300; i++) {
    warm_up();
    if (has_helper() && (!with_socket || socket_answers())) return;
    rest(10);
  }
  EXPECT(!"a helper and its socket");
}
static void has_all(void) { has_helper_soon(1); }

static void has_nothing(void) {
  warm_up();
  rest(300);
  EXPECT(!has_helper());
  EXPECT(!socket_answers());
}

// A filter that the kernel refuses does not count: the helper thread may be started again, and
// everything continues as before.
static void refused(void) {
  no_new_privileges();
  struct sock_fprog bad = {0, NULL};
  for (int i = 0; i < 10; i++) {
    EXPECT(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &bad) != 0);
    EXPECT(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &bad) != 0);
    EXPECT(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, NULL) != 0 &&
           errno == EFAULT);
  }
  has_helper_soon(0);
}

int main(int argc, char** argv) {
  static const struct Way kWays[] = {{"later_prctl", later_prctl},
                                     {"later_seccomp", later_seccomp},
                                     {"later_unanswered", later_unanswered},
                                     {"later_warm", later_warm},
                                     {"later_for_all", later_for_all},
                                     {"threads", threads},
                                     {"threads_for_all", threads_for_all},
                                     {"forks", forks},
                                     {"bare", bare},
                                     {"started", started},
                                     {"started_in_container", started_in_container},
                                     {"inside", inside},
                                     {"contained", contained},
                                     {"has_all", has_all},
                                     {"not_contained", not_contained},
                                     {"has_nothing", has_nothing},
                                     {"refused", refused}};
  expect_subject();
  if (argc > 2) to_start = argv + 2;
  if (argc < 2 || !RUN_WAY(kWays, argv[1])) return 2;
  say("ok\n");
  return 0;
}

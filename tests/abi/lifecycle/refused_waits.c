// The helper thread never spins: each of its system calls in turn is refused permanently, to all
// threads, or the limit of open files is below the number of open files. A client waits for an
// answer each time. The test measures how long the thread has run or was ready to run: on a busy
// machine a thread in a tight loop gets little processor time, but it is ready all the time.
//
// Usage: refused_waits; it starts itself as: refused_waits CALL ERRNO PIPE.
#include <dirent.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>

#include "filter.h"

enum { kLimit = -1 };  // instead of a system call: the limit of open files
enum { kAtOnce = 12, kWatchedMs = 1000, kMaxPercent = 60, kMaxPercentRun = 2 };

static const int kCalls[] = {SYS_ppoll,
                             SYS_poll,
                             SYS_futex,
                             SYS_clock_nanosleep,
                             SYS_nanosleep,
                             SYS_accept4,
                             SYS_recvfrom,
                             SYS_sendto,
                             SYS_read,
                             SYS_pread64,
                             SYS_write,
                             SYS_close,
                             SYS_openat,
                             SYS_statx,
                             SYS_fcntl,
                             SYS_socket,
                             SYS_bind,
                             SYS_listen,
                             SYS_getsockopt,
                             SYS_setsockopt,
                             SYS_signalfd4,
                             SYS_rt_sigtimedwait,
                             SYS_rt_sigpending,
                             SYS_tgkill,
                             SYS_gettid,
                             SYS_getpid,
                             SYS_geteuid,
                             SYS_mkdirat,
                             SYS_unlinkat,
                             SYS_renameat2,
                             SYS_fchmodat,
                             SYS_membarrier,
                             SYS_mincore,
                             SYS_madvise,
                             SYS_munmap,
                             SYS_mremap,
                             SYS_mmap,
                             SYS_prctl,
                             SYS_process_vm_readv,
                             SYS_clock_gettime,
                             SYS_getrandom,
                             SYS_getdents64,
                             SYS_getrusage,
                             SYS_sched_getaffinity,
                             SYS_timer_create,
                             SYS_timer_settime,
                             SYS_timer_gettime};
static const int kErrors[] = {EPERM, ENOSYS, EINVAL, EINTR, EAGAIN, ENOMEM};

static void rest(int milliseconds) { poll(NULL, 0, milliseconds); }

static void wait_for_end(int pipe, int call) {
  struct pollfd end = {pipe, POLLIN, 0};
  char byte;
  if (call == SYS_read) {
    raw_syscall(SYS_poll, (long)&end, 1, -1);
  } else {
    while (read(pipe, &byte, 1) < 0 && errno == EINTR) {
    }
  }
  _exit(0);
}

static int watched(int call, int error, int pipe) {
  free(marked(malloc(8 << 20), 8 << 20));
  rest(200);  // the helper thread starts
  if (call == kLimit) {
    struct rlimit limit = {(rlim_t)error, (rlim_t)error};
    EXPECT(setrlimit(RLIMIT_NOFILE, &limit) == 0);
  } else {
    static struct Filter filter;
    make_filter(&filter, &call, 1, SECCOMP_RET_ERRNO | (unsigned)error, SECCOMP_RET_ALLOW);
    no_new_privileges();
    if (raw_syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC,
                    (long)&filter.program) != 0)
      _exit(77);
  }
  wait_for_end(pipe, call);
  return 0;
}

static void ask(pid_t process) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  snprintf(address.sun_path, sizeof(address.sun_path), "/tmp/seemalloc-%u/%d.sock", geteuid(),
           process);
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (connect(fd, (struct sockaddr*)&address, sizeof(address)) == 0)
    send(fd, "ping\nstats brief\n", 17, MSG_NOSIGNAL);
  // The connection stays open and waits to be served.
}

struct Busy {
  double ran_ms, waited_ms;  // waited: for a processor
};

struct Watch {
  int call, error;
  pid_t process;
  struct Busy busy;
  double at_ms;
};

static double now_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

static struct Busy busy(pid_t process) {
  char path[300];
  struct Busy sum = {0, 0};
  sprintf(path, "/proc/%d/task", process);
  DIR* tasks = opendir(path);
  EXPECT(tasks != NULL);
  for (struct dirent* task; (task = readdir(tasks)) != NULL;) {
    if (task->d_name[0] == '.') continue;
    snprintf(path, sizeof(path), "/proc/%d/task/%s/schedstat", process, task->d_name);
    FILE* file = fopen(path, "r");
    double ran, waited;
    if (file == NULL || fscanf(file, "%lf %lf", &ran, &waited) != 2)
      cannot("the kernel has no schedstat");
    fclose(file);
    sum.ran_ms += ran / 1e6;
    sum.waited_ms += waited / 1e6;
  }
  closedir(tasks);
  return sum;
}

static void start(struct Watch* watch, const int* ends) {
  watch->process = fork();
  EXPECT(watch->process >= 0);
  if (watch->process != 0) return;
  char call[16], error[16], end[16];
  sprintf(call, "%d", watch->call);
  sprintf(error, "%d", watch->error);
  sprintf(end, "%d", ends[0]);
  close(ends[1]);
  execl("/proc/self/exe", "refused_waits", call, error, end, (char*)NULL);
  _exit(1);
}

// A loop that does not sleep runs or waits for a processor all the time. On a loaded machine a
// thread that sleeps waits long as well, but runs little.
static int has_been_busy(struct Watch* watch) {
  struct Busy now = busy(watch->process);
  double ran_ms = now.ran_ms - watch->busy.ran_ms,
         waited_ms = now.waited_ms - watch->busy.waited_ms;
  double past_ms = now_ms() - watch->at_ms, percent = 100 * (ran_ms + waited_ms) / past_ms;
  if (100 * ran_ms / past_ms <= kMaxPercentRun) return 0;
  if (percent <= kMaxPercent) return 0;
  if (watch->call == kLimit) {
    dprintf(2, "limit of open files %d: busy for %.0f %% of the time\n", watch->error, percent);
  } else {
    dprintf(2, "system call %d refused with %d: busy for %.0f %% of the time\n", watch->call,
            watch->error, percent);
  }
  return 1;
}

static void expect_end(const struct Watch* watch) {
  int status;
  EXPECT(waitpid(watch->process, &status, 0) == watch->process);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 77) cannot("seccomp filters are not allowed");
  EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

int main(int argc, char** argv) {
  if (argc == 4) return watched(atoi(argv[1]), atoi(argv[2]), atoi(argv[3]));
  expect_subject();
  static struct Watch
      watches[sizeof(kCalls) / sizeof(kCalls[0]) * (sizeof(kErrors) / sizeof(kErrors[0])) + 8];
  size_t count = 0;
  static const int kLimits[] = {0, 3, 4, 5, 10};
  for (size_t i = 0; i < sizeof(kLimits) / sizeof(kLimits[0]); i++)
    watches[count++] = (struct Watch){.call = kLimit, .error = kLimits[i]};
  for (size_t i = 0; i < sizeof(kCalls) / sizeof(kCalls[0]); i++) {
    for (size_t j = 0; j < sizeof(kErrors) / sizeof(kErrors[0]); j++)
      watches[count++] = (struct Watch){.call = kCalls[i], .error = kErrors[j]};
  }
  int failed = 0;
  for (size_t first = 0; first < count; first += kAtOnce) {
    size_t last = first + kAtOnce < count ? first + kAtOnce : count;
    int ends[2];
    EXPECT(pipe(ends) == 0);
    for (size_t i = first; i < last; i++) start(&watches[i], ends);
    close(ends[0]);
    rest(600);
    for (size_t i = first; i < last; i++) {
      ask(watches[i].process);
      watches[i].at_ms = now_ms();
      watches[i].busy = busy(watches[i].process);
    }
    rest(kWatchedMs);
    for (size_t i = first; i < last; i++) failed += has_been_busy(&watches[i]);
    close(ends[1]);
    for (size_t i = first; i < last; i++) expect_end(&watches[i]);
  }
  EXPECT(failed == 0);
  return ok();
}

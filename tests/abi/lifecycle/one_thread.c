// A program of one thread may do things that the kernel or the C library deny to programs with
// several threads, although there is a helper thread: change its credentials by calls for the
// calling thread (setuid and similar calls of the C library abort where threads disagree), and
// enter namespaces. The helper thread exists again afterwards. Usage: one_thread WAY.
#include <dirent.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/securebits.h>
#include <pthread.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

#include "expect.h"
#include "helper.h"

enum { kMiB = 1 << 20, kNoOwner = 65534 };

int capset(struct __user_cap_header_struct* header, const struct __user_cap_data_struct* data);

static int threads(void) {
  static char status[8192];
  int fd = open("/proc/self/status", O_RDONLY);
  if (fd < 0) cannot("no /proc");
  ssize_t length = read(fd, status, sizeof(status) - 1);
  close(fd);
  EXPECT(length > 0);
  status[length] = 0;
  const char* at = strstr(status, "\nThreads:\t");
  EXPECT(at != NULL);
  return atoi(at + strlen("\nThreads:\t"));
}

// The sum of the threads' ids: it changes if the helper thread is replaced.
static long thread_ids(void) {
  DIR* tasks = opendir("/proc/self/task");
  if (tasks == NULL) cannot("no /proc");
  long sum = 0;
  for (struct dirent* task; (task = readdir(tasks)) != NULL;) sum += atol(task->d_name);
  closedir(tasks);
  return sum;
}

static void expect_helper(int others) {
  const char* subject = getenv("EXPECT_SEEMALLOC");
  if (subject == NULL || *subject == 0) return;
  for (int i = 0; i < 3000 && threads() != others + 2; i++) {
    free(malloc(2 * kMiB));
    rest(10);
  }
  EXPECT(threads() == others + 2);
}

static void need_root(void) {
  if (geteuid() != 0) cannot("needs root");
}

// As setpriv does: the identity is dropped, the capabilities stay, and are used.
static struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
static struct __user_cap_data_struct capabilities[2];
static int set_capabilities(int by_number) {
  return by_number ? (int)syscall(SYS_capset, &header, capabilities)
                   : capset(&header, capabilities);
}
static void change_user(int by_number) {
  need_root();
  EXPECT(syscall(SYS_capget, &header, capabilities) == 0);
  EXPECT((by_number ? syscall(SYS_prctl, PR_SET_KEEPCAPS, 1, 0, 0, 0)
                    : prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0)) == 0);
  EXPECT(setresuid(kNoOwner, kNoOwner, kNoOwner) == 0);
  EXPECT(set_capabilities(by_number) == 0);
  EXPECT(setresgid(kNoOwner, kNoOwner, kNoOwner) == 0);
  EXPECT(setgroups(0, NULL) == 0);
  capabilities[0].effective = capabilities[1].effective = 0;
  EXPECT(set_capabilities(by_number) == 0);
  EXPECT(setgroups(0, NULL) == -1 && errno == EPERM);
  expect_helper(0);
  capabilities[0].effective = capabilities[0].permitted;
  EXPECT(set_capabilities(by_number) == 0);
  EXPECT(setresuid(0, 0, 0) == 0);
}
static void user(void) { change_user(0); }
static void syscalls(void) { change_user(1); }

static void securebits(void) {
  need_root();
  if (prctl(PR_SET_SECUREBITS, SECBIT_NO_SETUID_FIXUP, 0, 0, 0) != 0)
    cannot("securebits are not allowed");
  EXPECT(setresuid(kNoOwner, kNoOwner, kNoOwner) == 0);
  EXPECT(setresgid(kNoOwner, kNoOwner, kNoOwner) == 0);
  expect_helper(0);
}

static void user_namespace(void) {
  if (unshare(CLONE_NEWUSER) != 0) {
    EXPECT(errno != EINVAL);
    cannot("user namespaces are not allowed");
  }
  EXPECT(unshare(CLONE_FS) == 0);
  expect_helper(0);
}

static void mount_namespace(void) {
  need_root();
  int own = open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC);
  if (own < 0) cannot("no /proc");
  if (setns(own, CLONE_NEWNS) != 0) {
    EXPECT(errno != EINVAL);
    cannot("mount namespaces are not allowed");
  }
  EXPECT(setns(own, 0) == 0 && setns(-1, 0) == -1 && errno == EBADF);
  expect_helper(0);
}

// In the child of vfork the helper thread belongs to the parent: it stays.
static void in_vfork(void) {
  long before = thread_ids();
  pid_t child = vfork();
  if (child == 0) _exit(unshare(CLONE_NEWUSER) == 0 || errno != EINVAL ? 0 : 1);
  int status;
  EXPECT(child > 0 && waitpid(child, &status, 0) == child);
  EXPECT(WIFEXITED(status));  // CLONE_VM: the kernel may refuse
  EXPECT(thread_ids() == before);
}

// If the program has other threads, the kernel refuses because of them, and the helper thread
// stays.
static volatile int go_on;
static void* wait_for_it(void* none) {
  while (!go_on) rest(10);
  return none;
}
static void with_threads(void) {
  pthread_t thread;
  EXPECT(pthread_create(&thread, NULL, wait_for_it, NULL) == 0);
  long before = thread_ids();
  for (int i = 0; i < 10; i++) {
    EXPECT(unshare(CLONE_NEWUSER) == -1 && errno == EINVAL);
    EXPECT(prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) == 0);
    EXPECT(thread_ids() == before);
  }
  go_on = 1;
  EXPECT(pthread_join(thread, NULL) == 0);
}

int main(int argc, char** argv) {
  static const struct Way kWays[] = {{"user", user},
                                     {"syscalls", syscalls},
                                     {"securebits", securebits},
                                     {"user_namespace", user_namespace},
                                     {"mount_namespace", mount_namespace},
                                     {"vfork", in_vfork},
                                     {"threads", with_threads}};
  expect_subject();
  void* large = marked(malloc(8 * kMiB), 8 * kMiB);
  expect_helper(0);
  if (argc != 2 || !RUN_WAY(kWays, argv[1])) return 2;
  free_marked(large, 8 * kMiB);
  return ok();
}

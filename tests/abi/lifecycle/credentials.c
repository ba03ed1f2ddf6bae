// Tests that no thread of the allocator keeps a privilege that the program has given up, for each
// way to give it up. Usage: credentials WAY.
#include <dirent.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <pthread.h>
#include <sys/fsuid.h>
#include <sys/wait.h>
#include <time.h>

#include "filter.h"
#include "helper.h"

enum { kMiB = 1 << 20, kNoOwner = 65534, kLandlockCreate = 444, kLandlockRestrict = 446 };

int capset(struct __user_cap_header_struct* header, const struct __user_cap_data_struct* data);

// Gets the lines of a thread's status that show its privileges.
static int credentials(const char* thread, char* out) {
  static const char* const kLines[] = {"Uid:",    "Gid:",    "Groups:", "CapInh:",     "CapPrm:",
                                       "CapEff:", "CapBnd:", "CapAmb:", "NoNewPrivs:", "Seccomp:"};
  char path[300], text[8192];
  snprintf(path, sizeof(path), "/proc/self/task/%s/status", thread);
  int fd = open(path, O_RDONLY);
  if (fd < 0) return 0;  // the thread has ended
  ssize_t length = read(fd, text, sizeof(text) - 1);
  close(fd);
  if (length <= 0) return 0;
  text[length] = 0;
  *out = 0;
  for (char* line = strtok(text, "\n"); line != NULL; line = strtok(NULL, "\n")) {
    for (size_t i = 0; i < sizeof(kLines) / sizeof(kLines[0]); i++) {
      if (strncmp(line, kLines[i], strlen(kLines[i])) == 0) strcat(strcat(out, line), "\n");
    }
  }
  return 1;
}

// Returns the number of threads, or 0 if their privileges differ.
static int threads_that_agree(int say) {
  DIR* tasks = opendir("/proc/self/task");
  if (tasks == NULL) cannot("no /proc");
  char first[4096] = "", other[4096];
  int count = 0;
  for (struct dirent* task; (task = readdir(tasks)) != NULL;) {
    if (task->d_name[0] == '.' || !credentials(task->d_name, other)) continue;
    if (count++ == 0) strcpy(first, other);
    if (strcmp(first, other) == 0) continue;
    if (say) fprintf(stderr, "one thread:\n%sanother:\n%s", first, other);
    closedir(tasks);
    return 0;
  }
  closedir(tasks);
  return count;
}

static void expect_helper(int others) {
  for (int i = 0; has_seemalloc() && i < 3000 && threads_that_agree(0) != others + 2; i++) {
    free(malloc(2 * kMiB));
    rest(10);
  }
  EXPECT(threads_that_agree(1) == others + (has_seemalloc() ? 2 : 1));
}

// ---- ways to give something up ----

static gid_t one_group = kNoOwner;
static void do_setuid(void) { EXPECT(setuid(kNoOwner) == 0); }
static void do_setgid(void) { EXPECT(setgid(kNoOwner) == 0); }
static void do_seteuid(void) { EXPECT(seteuid(kNoOwner) == 0); }
static void do_setegid(void) { EXPECT(setegid(kNoOwner) == 0); }
static void do_setreuid(void) { EXPECT(setreuid(kNoOwner, kNoOwner) == 0); }
static void do_setregid(void) { EXPECT(setregid(kNoOwner, kNoOwner) == 0); }
static void do_setresuid(void) { EXPECT(setresuid(kNoOwner, kNoOwner, kNoOwner) == 0); }
static void do_setresgid(void) { EXPECT(setresgid(kNoOwner, kNoOwner, kNoOwner) == 0); }
static void do_setgroups(void) { EXPECT(setgroups(1, &one_group) == 0); }
static void do_initgroups(void) { EXPECT(initgroups("nobody", kNoOwner) == 0); }
static void do_setfsuid(void) { EXPECT(setfsuid(kNoOwner) == 0); }
static void do_setfsgid(void) { EXPECT(setfsgid(kNoOwner) == 0); }
static void do_numbers(void) {
  EXPECT(syscall(SYS_setgroups, 1L, &one_group) == 0);
  EXPECT(threads_that_agree(1) != 0);
  EXPECT(syscall(SYS_setresgid, kNoOwner, kNoOwner, kNoOwner) == 0);
  EXPECT(threads_that_agree(1) != 0);
  EXPECT(syscall(SYS_setresuid, kNoOwner, kNoOwner, kNoOwner) == 0);
}
static void do_setuid_number(void) { EXPECT(syscall(SYS_setuid, kNoOwner) == 0); }
static void do_capset(void) {
  struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  struct __user_cap_data_struct none[2] = {{0, 0, 0}, {0, 0, 0}};
  EXPECT(capset(&header, none) == 0);
}
static void do_no_new_privileges(void) { EXPECT(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0); }
static void do_bounds(void) {
  for (int capability = 0; capability <= 30; capability++)
    EXPECT(prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) == 0);
}
static void do_many(void) {  // in quick succession, and back again
  for (int i = 0; i < 200; i++) {
    EXPECT(seteuid(kNoOwner) == 0 && threads_that_agree(1) != 0);
    EXPECT(seteuid(0) == 0 && threads_that_agree(1) != 0);
    free(malloc(2 * kMiB));
  }
  do_setuid();
}

// Tests one way in a child process, which has a helper thread before and after it: immediately
// afterwards, or when the program next allocates.
static void in_a_process(void (*give_up)(void), int is_back_at_once) {
  fflush(NULL);
  pid_t child = fork();
  if (child == 0) {
    void* large = marked(malloc(8 * kMiB), 8 * kMiB);
    expect_helper(0);
    give_up();
    int threads = threads_that_agree(1);
    EXPECT(threads != 0 && (threads == 2 || !is_back_at_once || !has_seemalloc()));
    expect_helper(0);
    free_marked(large, 8 * kMiB);
    _exit(0);
  }
  int status;
  EXPECT(child > 0 && waitpid(child, &status, 0) == child && status == 0);
}

static void calls(void) {
  static void (*const kAll[])(void) = {
      do_setuid,    do_setgid,        do_seteuid,   do_setegid,           do_setreuid, do_setregid,
      do_setresuid, do_setresgid,     do_setgroups, do_initgroups,        do_setfsuid, do_setfsgid,
      do_numbers,   do_setuid_number, do_capset,    do_no_new_privileges, do_bounds};
  for (size_t i = 0; i < sizeof(kAll) / sizeof(kAll[0]); i++) in_a_process(kAll[i], 1);
  in_a_process(do_many, 0);
}

// System calls that reach none of our functions. The helper thread checks the credentials
// regularly.
static void wait_until_they_agree(void) {
  for (int i = 0; i < 3000 && threads_that_agree(0) == 0; i++) rest(10);
}
static void do_bare_user(void) {
  EXPECT(raw_syscall(SYS_setresuid, kNoOwner, kNoOwner, kNoOwner) == 0);
  wait_until_they_agree();
}
static void do_bare_capset(void) {
  struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  struct __user_cap_data_struct none[2] = {{0, 0, 0}, {0, 0, 0}};
  EXPECT(raw_syscall(SYS_capset, (long)&header, (long)none, 0) == 0);
  wait_until_they_agree();
}
static void bare_calls(void) {
  in_a_process(do_bare_user, 0);
  in_a_process(do_bare_capset, 0);
}

// A filter of the only thread of the program ends the helper thread, like a filter for all threads.
static void filter(void) {
  static struct Filter all;
  make_filter(&all, NULL, 0, SECCOMP_RET_ALLOW, SECCOMP_RET_ALLOW);
  no_new_privileges();
  expect_helper(0);
  install(&all, kByPrctl);
  EXPECT(threads_that_agree(1) == 1);
}

// Whether Landlock restricts a thread cannot be read. So this tests that the helper thread was
// replaced after the restriction.
static long thread_ids(void) {
  DIR* tasks = opendir("/proc/self/task");
  if (tasks == NULL) cannot("no /proc");
  long sum = 0;
  for (struct dirent* task; (task = readdir(tasks)) != NULL;) sum += atol(task->d_name);
  closedir(tasks);
  return sum;
}
static void landlock(void) {
  struct {
    unsigned long handled;
  } rules = {1};  // to execute files
  int set = (int)syscall(kLandlockCreate, &rules, sizeof(rules), 0);
  if (set < 0) cannot("the kernel has no Landlock");
  EXPECT(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
  expect_helper(0);
  long before = thread_ids();
  EXPECT(syscall(kLandlockRestrict, set, 0) == 0);
  EXPECT(!has_seemalloc() || thread_ids() != before);
  expect_helper(0);
}

// The C library makes the call in each thread of the program, whichever thread calls its function.
static volatile int go_on;
static void* waits(void* none) {
  while (!go_on) rest(10);
  return none;
}
static void* gives_up(void* none) {
  do_setresgid();
  EXPECT(threads_that_agree(1) != 0);
  do_setresuid();
  EXPECT(threads_that_agree(1) != 0);
  return none;
}
static void do_in_second_thread(void) {
  pthread_t waiting, second;
  EXPECT(pthread_create(&waiting, NULL, waits, NULL) == 0);
  EXPECT(pthread_create(&second, NULL, gives_up, NULL) == 0);
  EXPECT(pthread_join(second, NULL) == 0);
  expect_helper(1);
  go_on = 1;
  EXPECT(pthread_join(waiting, NULL) == 0);
}
// Several calls at the same time, in threads that also allocate.
static void* changes_often(void* none) {
  for (int i = 0; i < 200; i++) {
    EXPECT(setegid(i % 2 == 0 ? kNoOwner : 0) == 0);
    free_marked(marked(malloc(3 * kMiB), 3 * kMiB), 3 * kMiB);
  }
  return none;
}
static void do_at_once(void) {
  pthread_t all[4];
  for (int i = 0; i < 4; i++) EXPECT(pthread_create(&all[i], NULL, changes_often, NULL) == 0);
  for (int i = 0; i < 4; i++) EXPECT(pthread_join(all[i], NULL) == 0);
  EXPECT(threads_that_agree(1) != 0);
  do_setuid();
}
static void threads(void) {
  in_a_process(do_in_second_thread, 0);
  in_a_process(do_at_once, 0);
}

int main(int argc, char** argv) {
  static const struct Way kWays[] = {{"calls", calls},
                                     {"bare_calls", bare_calls},
                                     {"filter", filter},
                                     {"landlock", landlock},
                                     {"threads", threads}};
  expect_subject();
  if (geteuid() != 0) cannot("needs root");
  void* large = marked(malloc(8 * kMiB), 8 * kMiB);
  expect_helper(0);
  if (argc != 2 || !RUN_WAY(kWays, argv[1])) return 2;
  free_marked(large, 8 * kMiB);
  return ok();
}

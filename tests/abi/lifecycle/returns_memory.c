// Free memory is returned to the OS even where the program makes no further calls that would do it:
// a program with one huge block that goes to sleep, a child of fork that only frees, and programs
// in sandboxes that allow no threads. Also: a program that has been in a sandbox since it was
// loaded survives. Usage: gives_back WAY.
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

#include "expect.h"

enum { kMiB = 1 << 20, kFull = 64, kLittle = 24, kBlocks = 128 * 1024, kBytes = 512 };

// Reads the figure without calling malloc.
static long figure(const char* path, const char* name) {
  static char text[8192];
  int fd = open(path, O_RDONLY);
  EXPECT(fd >= 0);
  ssize_t length = read(fd, text, sizeof(text) - 1);
  close(fd);
  EXPECT(length > 0);
  text[length] = 0;
  const char* at = strstr(text, name);
  EXPECT(at != NULL);
  return atol(at + strlen(name));
}
static long resident_mib(void) { return figure("/proc/self/status", "VmRSS:") / 1024; }
static long threads(void) { return figure("/proc/self/status", "Threads:"); }

static void rest(long milliseconds) {
  struct timespec left = {milliseconds / 1000, milliseconds % 1000 * 1000000};
  while (nanosleep(&left, &left) != 0) {
  }
}

// Repeats `meanwhile` until hardly any memory is resident.
static void expect_given_back(void (*meanwhile)(void)) {
  for (int i = 0; i < 200 && resident_mib() > kLittle; i++) {
    rest(50);
    if (meanwhile != NULL) meanwhile();
  }
  EXPECT(resident_mib() <= kLittle);
}

// ---- one large block, and hardly any others ----

static void huge(void) {
  free(marked(malloc(kFull * kMiB), kFull * kMiB));
  EXPECT(threads() == 2);
  expect_given_back(NULL);
}

static void grown(void) {
  size_t size = 5 * kMiB / 4;
  char* block = malloc(size);
  for (; size < kFull * kMiB; size *= 2) block = marked(realloc(block, 2 * size), 2 * size);
  free(block);
  EXPECT(threads() == 2);
  expect_given_back(NULL);
}

// ---- a child of fork frees the blocks that it inherited ----

static void* blocks[kBlocks];

static void fill(size_t count, size_t bytes) {
  for (size_t i = 0; i < count; i++) blocks[i] = marked(malloc(bytes), bytes);
  EXPECT(resident_mib() >= kFull);
}

static void in_child(void (*frees)(void)) {
  pid_t child = fork();
  EXPECT(child >= 0);
  if (child == 0) {
    frees();
    expect_given_back(NULL);
    EXPECT(threads() == 2);
    _exit(0);
  }
  int status = 0;
  EXPECT(waitpid(child, &status, 0) == child);
  EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void free_all(void) {
  for (size_t i = 0; i < kBlocks; i++) free(blocks[i]);
}
// One block in every page and a half stays live, so that no span is empty.
static void free_most(void) {
  for (size_t i = 0; i < kBlocks; i++) {
    if (i % 64 != 0) free(blocks[i]);
  }
}
static void child(void) {
  fill(kBlocks, kBytes);
  in_child(free_all);
  in_child(free_most);
}

static void child_large(void) {
  fill(kFull * 2, kMiB / 2);
  in_child(free_all);
}

static void child_huge(void) {
  fill(1, kFull * kMiB);
  in_child(free_all);
}

// ---- a sandbox without threads ----

#define IF_IT_IS(call, to) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##call, to, 0)

static void set_filter(struct sock_filter* filter, size_t length) {
  struct sock_fprog program = {(unsigned short)length, filter};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
    cannot("seccomp filters are not allowed");
  }
}

static void forbid_threads(unsigned answer) {
  struct sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)), IF_IT_IS(clone, 2),
      IF_IT_IS(clone3, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
      BPF_STMT(BPF_RET | BPF_K, answer)};
  set_filter(filter, sizeof(filter) / sizeof(filter[0]));
}

// The work of a program that is nearly idle.
static void some_work(void) {
  void* few[1000];
  for (int i = 0; i < 1000; i++) few[i] = marked(malloc(64), 64);
  for (int i = 0; i < 1000; i++) free_marked(few[i], 64);
}

static void alone(void) {
  fill(kBlocks, kBytes);
  free_all();
  expect_given_back(some_work);
  EXPECT(threads() == 1);
}
static void sandbox(unsigned answer) {
  forbid_threads(answer);
  alone();
}
static void refused(void) { sandbox(SECCOMP_RET_ERRNO | EPERM); }
static void killed(void) { sandbox(SECCOMP_RET_KILL_PROCESS); }

static void run_again(const char* way) {
  execl("/proc/self/exe", "gives_back", way, (char*)NULL);
  EXPECT(!"exec");
}

// The filter is installed by the parent: the helper thread is tried there, and refused.
static void never_had(void) {
  forbid_threads(SECCOMP_RET_ERRNO | EAGAIN);
  run_again("alone");
}

// The filter is installed by the parent, as service managers do; it allows only the calls that a
// small program makes itself. With and without sampling.
static void loaded(void) {
  struct sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      IF_IT_IS(prctl, 5),
      IF_IT_IS(membarrier, 4),
      IF_IT_IS(clone, 3),
      IF_IT_IS(clone3, 2),
      IF_IT_IS(seccomp, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS)};
  set_filter(filter, sizeof(filter) / sizeof(filter[0]));
  run_again("little");
}
static void little(void) { some_work(); }

int main(int argc, char** argv) {
  static const struct Way kWays[] = {{"huge", huge},
                                     {"grown", grown},
                                     {"child", child},
                                     {"child_large", child_large},
                                     {"child_huge", child_huge},
                                     {"refused", refused},
                                     {"killed", killed},
                                     {"never_had", never_had},
                                     {"alone", alone},
                                     {"loaded", loaded},
                                     {"little", little}};
  expect_subject();
  return argc == 2 && RUN_WAY(kWays, argv[1]) ? ok() : 2;
}

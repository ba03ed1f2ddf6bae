// Sends a signal at every instruction of malloc and free: the handler captures the interrupted
// stack, which must be complete.
//
// A child is single-stepped by ptrace through calls of the malloc family. At each instruction it
// receives a signal, whose handler captures the stack from the registers. The stack must end with
// the frames that made the calls, up to the program's first. The handler must not wait for a lock
// that the interrupted code holds: a child that has not ended after four minutes is killed, and the
// test fails. Exit status 77: this machine does not allow ptrace.
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/types.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include "capture.h"

#define NOINLINE __attribute__((noipa))
enum { kTrapFlag = 0x100 };
#define BREAKPOINT __asm__ volatile("int3" ::: "memory")

// ---- the child ----

struct shared {
  struct captured reference;  // the stack of window()
  long captures, wrong;
  struct captured first_wrong;
};
static struct shared* shared;

// True when all frames from window()'s caller on are present.
static int ends_as_expected(const struct captured* stack) {
  int expected = shared->reference.depth - 2;  // without window() itself and capture()
  if (stack->broken || stack->truncated || stack->depth < expected) return 0;
  const uintptr_t* end = stack->pcs + stack->depth - expected;
  return memcmp(end, shared->reference.pcs + 2, (size_t)expected * sizeof(*end)) == 0;
}

static void on_signal(int number, siginfo_t* info, void* context) {
  (void)number, (void)info;
  struct captured stack;
  capture_from(context, &stack);
  shared->captures++;
  if (!ends_as_expected(&stack) && shared->wrong++ == 0) shared->first_wrong = stack;
  // One more instruction runs after the handler, then the child stops again.
  ((ucontext_t*)context)->uc_mcontext.gregs[REG_EFL] |= kTrapFlag;
}

extern const char window_end[];
static NOINLINE void window(void (*subject)(void)) {
  capture(&shared->reference);
  BREAKPOINT;
  subject();
  __asm__ volatile(".globl window_end\nwindow_end:\n\tint3" ::: "memory");
}

static void* volatile block;
static void small_pair(void) {
  block = malloc(64);
  free(block);
}
// The first block of its class: a heap, a span and a list have to be found for it.
static void first_of_a_class(void) {
  block = malloc(3000);
  free(block);
}
static void many(void) {
  void* blocks[80];
  for (int i = 0; i < 80; i++) blocks[i] = malloc(200);
  for (int i = 0; i < 80; i++) free(blocks[i]);
}
static void large_pair(void) {
  block = malloc(200 * 1024);
  free(block);
}
static void huge_pair(void) {
  block = malloc(5 * 1024 * 1024);
  free(block);
}
static void zeroed_and_moved(void) {
  block = calloc(10, 10);
  block = realloc(block, 1000);
  block = realloc(block, 20);
  free(block);
}
static void aligned(void) {
  block = aligned_alloc(4096, 4096);
  free(block);
}

static const struct subject {
  const char* name;
  void (*call)(void);
  long least;  // instructions
} subjects[] = {{"a pair of the smallest path", small_pair, 40},
                {"the first of a class", first_of_a_class, 200},
                {"eighty blocks", many, 2500},
                {"a large block", large_pair, 100},
                {"a huge block", huge_pair, 100},
                {"calloc and realloc", zeroed_and_moved, 200},
                {"an aligned block", aligned, 50}};
enum { kSubjects = sizeof(subjects) / sizeof(subjects[0]) };

static NOINLINE void run_as_child(void) {
  if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0) _exit(77);
  struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO};
  sigaction(SIGUSR1, &action, NULL);
  small_pair();
  for (int i = 0; i < kSubjects; i++) window(subjects[i].call);
  _exit(0);
}

// ---- the parent ----

static pid_t child;

static void on_alarm(int number) {
  (void)number;
  static const char text[] = "no end: the child is stuck\n";
  if (write(2, text, sizeof(text) - 1) > 0) kill(child, SIGKILL);
  _exit(1);
}

static void fail(const char* what, long value) {
  fprintf(stderr, "%s (%ld)\n", what, value);
  kill(child, SIGKILL);
  _exit(1);
}

// Waits for the child's next stop; false when it has ended.
static int wait_for_stop(void) {
  int status;
  while (waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) fail("waitpid", errno);
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 77) _exit(77);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return 0;
  if (!WIFSTOPPED(status)) fail("the child died", status);
  if (WSTOPSIG(status) != SIGTRAP) fail("the child got a signal of its own", WSTOPSIG(status));
  return 1;
}

static struct user_regs_struct registers(void) {
  struct user_regs_struct now;
  if (ptrace(PTRACE_GETREGS, child, NULL, &now) != 0) fail("PTRACE_GETREGS", errno);
  return now;
}

// Lets the child run to its next stop, with the signal, or 0 for none.
static void go_on(int signal) {
  if (ptrace(PTRACE_CONT, child, NULL, (void*)(long)signal) != 0) fail("PTRACE_CONT", errno);
}

static void step(void) {
  if (ptrace(PTRACE_SINGLESTEP, child, NULL, NULL) != 0) fail("PTRACE_SINGLESTEP", errno);
}

static int is_blocked(int signal) {
  uint64_t mask;
  if (ptrace(PTRACE_GETSIGMASK, child, (void*)sizeof(mask), &mask) != 0) return 0;
  return (mask >> (signal - 1) & 1) != 0;
}

// Steps through a window; returns how many instructions could not be interrupted.
static long step_through_window(void) {
  long blocked = 0;
  for (;;) {
    struct user_regs_struct here = registers();
    if (here.rip == (unsigned long)window_end) break;
    if (is_blocked(SIGUSR1)) {
      blocked++;
      step();
    } else {
      go_on(SIGUSR1);  // runs the handler, and the instruction at which the child stopped
    }
    if (!wait_for_stop()) fail("the child ended inside a call", 0);
  }
  struct user_regs_struct end = registers();
  end.eflags &= ~(unsigned long)kTrapFlag;
  ptrace(PTRACE_SETREGS, child, NULL, &end);
  return blocked;
}

static int judge(const struct subject* subject, long blocked) {
  setvbuf(stdout, NULL, _IOLBF, 0);
  printf("%s: %ld instructions, %ld wrong, %ld with signals blocked\n", subject->name,
         shared->captures, shared->wrong, blocked);
  if (shared->captures < subject->least) {
    printf("  expected at least %ld\n", subject->least);
    return 0;
  }
  for (int i = 0; shared->wrong != 0 && i < shared->first_wrong.depth; i++) {
    printf("  %3d %lx%s\n", i, (unsigned long)shared->first_wrong.pcs[i],
           shared->first_wrong.broken ? " broken" : "");
  }
  return shared->wrong == 0;
}

int main(void) {
  shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  fflush(stdout);
  child = fork();
  if (child == 0) run_as_child();
  signal(SIGALRM, on_alarm);
  int good = 1;
  for (int i = 0; wait_for_stop(); i++) {
    if (i == kSubjects) fail("more stops than expected", i);
    alarm(240);
    shared->captures = shared->wrong = 0;
    long blocked = step_through_window();
    good &= judge(&subjects[i], blocked);
    go_on(0);
    if (!wait_for_stop()) fail("the child ended before the window's end", 0);
    go_on(0);
  }
  puts(good ? "ok" : "failed");
  return good ? 0 : 1;
}

// fork in a signal handler while the main thread forks, and fork in a fork handler: at any point of
// the outer fork.
//
//   fork_in_fork alarm|usr1 [grown]
//     signals at random times; grown: the heap is large enough for the allocator's helper thread
//   fork_in_fork fault
//     a SIGSEGV handler that forks, raised in fork handlers while the allocator's handlers hold all
//     locks; its child continues with the outer fork
#include <pthread.h>
#include <signal.h>
#include <sys/time.h>
#include <sys/wait.h>

#include "expect.h"

extern void (*fork_faults_in_prepare)(void);
extern void (*fork_faults_in_parent)(void);
extern void (*fork_faults_in_child)(void);

enum { kForks = 1500 };
static volatile int handled;
static int turns[2];  // one byte in the pipe: the next signal may be sent

static void wait_for(pid_t pid) {
  int status = 0;
  EXPECT(pid > 0 && waitpid(pid, &status, 0) == pid);
  EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void fork_once(void) {
  pid_t pid = fork();
  if (pid == 0) _exit(0);
  wait_for(pid);
}

static void set_alarm(void) {
  static unsigned long state = 1;
  struct itimerval once = {{0, 0}, {0, 20 + (long)random_below(&state, 900)}};
  if (handled < kForks) setitimer(ITIMER_REAL, &once, NULL);
}

static void on_alarm(int signal) {
  (void)signal;
  fork_once();
  handled++;
  set_alarm();
}

static void on_usr1(int signal) {
  (void)signal;
  fork_once();
  handled++;
  EXPECT(write(turns[1], "", 1) == 1);
}

static void handle(int signal, void (*handler)(int)) {
  struct sigaction action;
  memset(&action, 0, sizeof(action));
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  EXPECT(sigaction(signal, &action, NULL) == 0);
}

static pid_t start_sender(void) {
  EXPECT(pipe(turns) == 0);
  pid_t parent = getpid(), sender = fork();
  if (sender != 0) return sender;
  close(turns[1]);
  unsigned long state = 7;
  char turn;
  do {
    usleep(random_below(&state, 700));
    if (kill(parent, SIGUSR1) != 0) break;
  } while (read(turns[0], &turn, 1) == 1);
  _exit(0);
}

static void expect_open_mask(void) {
  sigset_t blocked;
  EXPECT(sigprocmask(SIG_BLOCK, NULL, &blocked) == 0);
  for (int signal = 1; signal <= 31; signal++) EXPECT(sigismember(&blocked, signal) == 0);
}

static void by_signals(const char* way) {
  pid_t sender = 0;
  if (strcmp(way, "alarm") == 0) {
    handle(SIGALRM, on_alarm);
    set_alarm();
  } else {
    handle(SIGUSR1, on_usr1);
    sender = start_sender();
  }
  // Until both have forked equally often: where one fork takes long, many signals arrive during it.
  for (int i = 0; i < kForks || handled < kForks; i++) {
    pid_t pid = fork();
    if (pid == 0) {
      // The child has the parent's signal mask, and may allocate.
      expect_open_mask();
      void* block = malloc(100 + (size_t)i * 10);
      EXPECT(block != NULL);
      free(block);
      _exit(0);
    }
    wait_for(pid);
    expect_open_mask();
    if (handled >= 2 * kForks) break;
  }
  if (sender != 0) {
    kill(sender, SIGKILL);
    waitpid(sender, NULL, 0);
  }
}

// ---- forks within fork handlers ----

static volatile sig_atomic_t forked_inside;
static pid_t inner, forked_by;

static void on_fault(int signal) {
  (void)signal;
  forked_inside = 1;
  forked_by = getpid();
  inner = fork();
  EXPECT(inner >= 0);
  // The child continues with the outer fork, as the parent does.
  void* block = malloc(3000);
  EXPECT(block != NULL);
  free(block);
}

static void fault_once(void) {
  if (!forked_inside) raise(SIGSEGV);
}

static void use_memory(void) {
  static void* blocks[200];
  for (int i = 0; i < 200; i++)
    blocks[i] = marked(malloc((size_t)(16 + i * 200)), (size_t)(16 + i * 200));
  for (int i = 0; i < 200; i++) free_marked(blocks[i], (size_t)(16 + i * 200));
}

static void* use_in_thread(void* unused) {
  use_memory();
  return unused;
}

static void by_faults(void) {
  enum { kPrepare, kParent, kChild };
  void (**places[])(void) = {&fork_faults_in_prepare, &fork_faults_in_parent,
                             &fork_faults_in_child};
  handle(SIGSEGV, on_fault);
  for (int turn = 0; turn < 30; turn++) {
    int place = turn % 3;
    forked_inside = 0;
    inner = -1;
    *places[place] = fault_once;
    pid_t outer = fork();
    *places[place] = NULL;
    EXPECT(outer >= 0 &&
           forked_inside == (place == kPrepare || (place == kParent) == (outer != 0)));
    // Four processes if it forked before the outer fork's clone, three if after it. All but the
    // first end here.
    int is_first = outer != 0 && inner != 0;
    use_memory();
    expect_open_mask();
    pthread_t thread;
    if (!is_first)
      EXPECT(pthread_create(&thread, NULL, use_in_thread, NULL) == 0 &&
             pthread_join(thread, NULL) == 0);
    if (inner > 0 && forked_by == getpid()) wait_for(inner);
    // In the inner child of a parent handler, the outer child is a sibling.
    if (outer > 0 && !(place == kParent && inner == 0)) wait_for(outer);
    if (!is_first) _exit(0);
  }
}

int main(int argc, char** argv) {
  alarm(0);
  expect_subject();
  EXPECT(argc > 1);
  if (argc > 2) {
    for (int i = 0; i < 600; i++) memset(malloc(5000), 1, 5000);
    free(malloc(8 << 20));
  }
  strcmp(argv[1], "fault") == 0 ? by_faults() : by_signals(argv[1]);
  return ok();
}

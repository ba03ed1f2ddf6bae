// fork between handlers that allocate, registered before the allocator's, with threads that
// allocate all the time; and fork from a signal handler that has interrupted malloc or free (crash
// handlers that start a debugger do this).
#include <signal.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "hammer.h"

extern void fork_library_use(void);

static volatile int forks;

static void fork_once(void) {
  pid_t pid = fork();
  if (pid == 0) _exit(3);
  int status = 0;
  EXPECT(pid > 0 && waitpid(pid, &status, 0) == pid);
  EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 3);
  forks++;
}

enum { kForksFromSignals = 200 };

static void on_alarm(int signal) {
  (void)signal;
  // fork handlers that allocate must not run in a signal handler: this fork has none.
  fork_once();
  // If a fork takes longer than the time to the next signal, the interrupted code never makes
  // progress unless the timer stops.
  struct itimerval never = {{0, 0}, {0, 0}};
  if (forks >= kForksFromSignals) setitimer(ITIMER_REAL, &never, NULL);
}

static void between_handlers(void) {
  fork_library_use();
  start_hammers(3);
  while (forks < 100) fork_once();
  stop_hammers();
}

static void from_signals(void) {
  struct sigaction action = {0};
  action.sa_handler = on_alarm;
  action.sa_flags = SA_RESTART;
  EXPECT(sigaction(SIGALRM, &action, NULL) == 0);
  struct itimerval every = {{0, 2000}, {0, 2000}};
  EXPECT(setitimer(ITIMER_REAL, &every, NULL) == 0);
  while (forks < kForksFromSignals) {
    void* blocks[64];
    for (int i = 0; i < 64; i++) blocks[i] = malloc((size_t)(20000 + i * 5000));
    for (int i = 0; i < 64; i++) free(blocks[i]);
  }
}

// The child frees blocks of a thread that does not exist in it.
static void* keep_blocks(void* arg) {
  (void)arg;
  static char* kept[200];
  for (int i = 0; i < 200; i++) kept[i] = malloc((size_t)(16 + i * 500));
  for (int i = 0; i < 200; i++) free(kept[i]);
  while (!hammers_stop) usleep(1000);
  return NULL;
}

static void from_signals_beside_a_thread(void) {
  pthread_t keeper;
  sigset_t alarm;  // for the main thread
  sigemptyset(&alarm);
  sigaddset(&alarm, SIGALRM);
  EXPECT(pthread_sigmask(SIG_BLOCK, &alarm, NULL) == 0);
  EXPECT(pthread_create(&keeper, NULL, keep_blocks, NULL) == 0);
  EXPECT(pthread_sigmask(SIG_UNBLOCK, &alarm, NULL) == 0);
  from_signals();
  hammers_stop = 1;
  EXPECT(pthread_join(keeper, NULL) == 0);
}

int main(int argc, char** argv) {
  expect_subject();
  if (argc > 1 && strcmp(argv[1], "signals") == 0) {
    from_signals();
  } else if (argc > 1 && strcmp(argv[1], "beside") == 0) {
    from_signals_beside_a_thread();
  } else {
    between_handlers();
  }
  return ok();
}

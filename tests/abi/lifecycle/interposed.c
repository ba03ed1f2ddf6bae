// A program that makes an allocator call the C library: threads, fork, dlopen and dlclose, growth,
// exit. A library in front of the C library's functions, or between the allocator and them,
// allocates in each (allocating_interposers.c).
//   interposed LIBRARY [outlive | rest]   the library that it opens and closes; with "outlive" the
//   main thread ends before the others, with "rest" the allocator's helper thread works for a while
#include <pthread.h>
#include <sys/wait.h>

#include "expect.h"
#include "helper.h"

static const char* library;

static void use(unsigned long seed) {
  unsigned long state = seed;
  void* blocks[256] = {NULL};
  for (int i = 0; i < 20000; i++) {
    unsigned at = random_below(&state, 256);
    free(blocks[at]);
    blocks[at] = malloc(random_size(&state));
    EXPECT(blocks[at] != NULL);
  }
  for (int i = 0; i < 256; i++) free(blocks[i]);
}

static void* run(void* argument) {
  use((unsigned long)argument);
  void* handle = dlopen(library, RTLD_NOW);
  EXPECT(handle != NULL);
  use((unsigned long)argument + 1);
  EXPECT(dlclose(handle) == 0);
  return NULL;
}

static void fork_and_use(void) {
  pid_t pid = fork();
  if (pid == 0) {
    alarm(60);
    use(3);
    _exit(0);  // glibc: exit may wait for a lock that a thread of the parent held in dlclose
  }
  int status = 0;
  EXPECT(pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) &&
         WEXITSTATUS(status) == 0);
}

static void at_exit(void) { use(5); }

static void use_in_threads(void) {
  pthread_t threads[4];
  for (unsigned long i = 0; i < 4; i++)
    EXPECT(pthread_create(&threads[i], NULL, run, (void*)(i + 10)) == 0);
  fork_and_use();
  for (int i = 0; i < 4; i++) EXPECT(pthread_join(threads[i], NULL) == 0);
}

static void* outlive(void* main_thread) {
  EXPECT(pthread_join(*(pthread_t*)main_thread, NULL) == 0);
  for (int turn = 0; turn < 6; turn++) use_in_threads();
  exit(ok());
}

int main(int argc, char** argv) {
  EXPECT(argc >= 2);
  library = argv[1];
  alarm(300);
  expect_subject();
  EXPECT(atexit(at_exit) == 0);
  use(1);
  for (int turn = 0; turn < 6; turn++) use_in_threads();
  int (*calls)(void) = (int (*)(void))dlsym(RTLD_DEFAULT, "interposed_calls");
  EXPECT(calls != NULL && calls() > 50);
  if (argc > 2 && strcmp(argv[2], "rest") == 0) {
    enum { kBlocks = 8000, kBytes = 1000 };  // a heap that needs the helper thread
    for (int i = 0; i < kBlocks; i++) EXPECT(calloc(1, kBytes) != NULL);
    rest(2500);
    return ok();
  }
  if (argc > 2) {
    static pthread_t main_thread, last;
    main_thread = pthread_self();
    EXPECT(pthread_create(&last, NULL, outlive, &main_thread) == 0);
    pthread_exit(NULL);
  }
  return ok();
}

// Allocation in atexit handlers and after them: destructor functions of the program and of a
// library, on_exit, at_quick_exit, while another thread still allocates and frees. The child runs
// many times; the parent checks how it ended.
#include <pthread.h>
#include <sys/wait.h>

#include "expect.h"

extern void exit_library_keep(void* block);

static void* before_main;
static void* from_main;

static void use(void) {
  for (size_t size = 1; size < 300000; size = size * 2 + 1)
    free_marked(marked(malloc(size), size), size);
}
static void in_atexit(void) {
  use();
  free_marked(from_main, 700);
  from_main = marked(malloc(800), 800);
}
static void in_on_exit(int status, void* block) {
  (void)status;
  use();
  free_marked(block, 60000);
}
__attribute__((destructor(101))) static void last_of_the_program(void) {
  use();
  free_marked(from_main, 800);
  free_marked(before_main, 50);
}
__attribute__((constructor(101))) static void first_of_the_program(void) {
  before_main = marked(malloc(50), 50);
}

static void* hammer(void* argument) {
  unsigned long state = (unsigned long)argument;
  for (;;) {
    size_t size = random_size(&state);
    free_marked(marked(malloc(size), size), size);
  }
  return NULL;
}

static void child(int how) {
  from_main = marked(malloc(700), 700);
  exit_library_keep(marked(malloc(4000), 4000));
  atexit(in_atexit);
  at_quick_exit(use);
  on_exit(in_on_exit, marked(malloc(60000), 60000));
  for (int i = 0; i < how % 3; i++) {
    pthread_t thread;
    EXPECT(pthread_create(&thread, NULL, hammer, (void*)(size_t)(i + 1)) == 0);
    pthread_detach(thread);
  }
  usleep((unsigned)how * 20);
  if (how % 5 == 4) quick_exit(0);
  exit(0);
}

int main(void) {
  expect_subject();
  for (int how = 0; how < 60; how++) {
    pid_t pid = fork();
    EXPECT(pid >= 0);
    if (pid == 0) child(how);
    int status = 0;
    EXPECT(waitpid(pid, &status, 0) == pid);
    EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
  from_main = marked(malloc(800), 800);  // for this process's own destructors
  return ok();
}

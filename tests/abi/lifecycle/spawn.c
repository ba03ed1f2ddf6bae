// vfork + exec, posix_spawn and system() from a program with threads that allocate and free all the
// time. vfork's child shares the parent's memory: the allocator must not behave differently there
// or leave anything changed.
#include <spawn.h>
#include <sys/wait.h>

#include "hammer.h"

extern char** environ;

static void expect_end(pid_t pid) {
  int status = 0;
  EXPECT(pid > 0);
  EXPECT(waitpid(pid, &status, 0) == pid);
  EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

int main(int argc, char** argv) {
  expect_subject();
  if (argc > 1) return 0;
  start_hammers(4);
  char* arguments[] = {argv[0], "child", NULL};
  for (int i = 0; i < 40; i++) {
    pid_t pid = vfork();
    if (pid == 0) {
      execve("/proc/self/exe", arguments, environ);
      _exit(4);
    }
    expect_end(pid);
    EXPECT(posix_spawn(&pid, argv[0], NULL, NULL, arguments, environ) == 0);
    expect_end(pid);
    free_marked(marked(malloc(3000), 3000), 3000);
  }
  // A child of vfork that fails to exec, and exits.
  pid_t pid = vfork();
  if (pid == 0) {
    execl("/no/such/program", "x", NULL);
    _exit(0);
  }
  expect_end(pid);
  EXPECT(system("true") == 0);
  stop_hammers();
  return ok();
}

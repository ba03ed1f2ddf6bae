/* alone PRELOAD FOLDER INPUT PROGRAM [ARGUMENT…]: runs the program in the directory, reading INPUT,
   with that preloaded library (none if empty), then prints its peak resident memory. The kernel's
   figure for a child begins with the size of its parent: this parent is small, and has no replaced
   allocator. Exit status: the program's, or 128 plus the signal that ended it. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static void fail(const char* what) {
  perror(what);
  _exit(127);
}

int main(int count, char** words) {
  if (count < 5) {
    fprintf(stderr, "alone: PRELOAD FOLDER INPUT PROGRAM [ARGUMENT…]\n");
    return 2;
  }
  int input = open(words[3], O_RDONLY);
  if (input < 0) fail(words[3]);
  if (dup2(input, 0) < 0 || chdir(words[2]) != 0) fail(words[2]);
  if (*words[1] != '\0' && setenv("LD_PRELOAD", words[1], 1) != 0) fail("LD_PRELOAD");
  pid_t child = vfork();
  if (child < 0) fail("vfork");
  if (child == 0) {
    execv(words[4], words + 4);
    fail(words[4]);
  }
  struct rusage usage;
  int status;
  if (wait4(child, &status, 0, &usage) != child) fail("wait4");
  printf("\nalone: peak_kib %ld\n", usage.ru_maxrss);
  if (!WIFSIGNALED(status)) return WEXITSTATUS(status);
  fprintf(stderr, "killed by %s\n", strsignal(WTERMSIG(status)));
  return 128 + WTERMSIG(status);
}

// An ordinary small program: it allocates blocks of many sizes and prints ok. With "fork", children
// do the same.
#include <sys/wait.h>

#include "expect.h"

int main(int argc, char** argv) {
  (void)argv;
  expect_subject();
  for (int i = 0; i < (argc > 1 ? 3 : 0); i++) {
    pid_t pid = fork();
    if (pid == 0) {
      free_marked(marked(malloc(3000), 3000), 3000);
      _exit(0);
    }
    int status = 0;
    EXPECT(waitpid(pid, &status, 0) == pid && status == 0);
  }
  for (size_t size = 0; size < (4 << 20); size = size * 2 + 1)
    free_marked(marked(malloc(size), size), size);
  return ok();
}

// The program's SIGABRT handler allocates after misuse was detected: it must get memory and not
// deadlock.
#include <signal.h>

#include "expect.h"

static void on_abort(int signal) {
  (void)signal;
  void* block = malloc(100);
  EXPECT(block != NULL);
  free(block);
  _exit(ok() == 0 && fflush(stdout) == 0 ? 0 : 1);
}

int main(void) {
  expect_subject();
  EXPECT(freopen("/dev/null", "w", stderr) != NULL);  // the line about the misuse is expected
  EXPECT(signal(SIGABRT, on_abort) != SIG_ERR);
  // Overwrites a link of the free list: it is detected in the middle of a refill.
  char* volatile blocks[4];
  for (int i = 0; i < 4; i++) blocks[i] = malloc(40);
  for (int i = 0; i < 4; i++) free(blocks[i]);
  memset(blocks[3], 'A', 8);
  for (int i = 0; i < 100000; i++) (void)!malloc(40);
  return 1;
}

// A library whose constructor, which runs before the allocator's own, allocates until
// $PREFIX.PID.0.i0.heap exists.
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int was_there;

__attribute__((constructor)) static void at_load(void) {
  char name[512];
  snprintf(name, sizeof(name), "%s.%d.0.i0.heap", getenv("PREFIX"), (int)getpid());
  for (int i = 0; i < 10000 && !was_there; i++) {
    void* volatile block = malloc(64 << 10);
    free(block);
    if (i > 256) usleep(1000);
    was_there = access(name, F_OK) == 0;
  }
}

// Without /proc: a private mount namespace, /proc unmounted, then the program again from its start.
// Needs root.
#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>

#include "expect.h"

static int inside(void) {
  EXPECT(access("/proc/self/maps", F_OK) != 0);
  expect_subject();
  unsigned long state = 1;
  void* blocks[500] = {0};
  size_t sizes[500];
  for (int i = 0; i < 50000; i++) {
    unsigned at = random_below(&state, 500);
    if (blocks[at] != NULL) free_marked(blocks[at], sizes[at]);
    sizes[at] = random_size(&state);
    blocks[at] = marked(malloc(sizes[at]), sizes[at]);
  }
  for (int i = 0; i < 500; i++) free(blocks[i]);
  return ok();
}

int main(int argc, char** argv) {
  if (argc > 1) return inside();
  // Uses the program's own path: /proc/self/exe will not exist.
  if (unshare(CLONE_NEWNS) != 0) cannot("unshare of the mount namespace is not allowed");
  if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0)
    cannot("the mounts cannot be made private");
  if (umount2("/proc", MNT_DETACH) != 0) cannot("/proc cannot be unmounted");
  if (access("/proc/self", F_OK) == 0) cannot("/proc is mounted twice");
  execl(argv[0], argv[0], "inside", NULL);
  return 6;
}

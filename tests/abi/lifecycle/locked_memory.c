// With all memory locked (mlockall) the kernel populates each mapping at once. A refused request
// must populate nothing.
#include <sys/mman.h>
#include <sys/resource.h>

#include "expect.h"

enum { kMiB = 1 << 20, kBlocks = 4096, kBlockBytes = 30000 };

// In bytes. `what` is VmSize or VmHWM.
static size_t status(const char* what) {
  FILE* file = fopen("/proc/self/status", "r");
  char line[256];
  size_t kib = 0;
  EXPECT(file != NULL);
  while (fgets(line, sizeof(line), file) != NULL) {
    if (strncmp(line, what, strlen(what)) == 0) kib = strtoul(line + strlen(what) + 1, NULL, 10);
  }
  fclose(file);
  EXPECT(kib != 0);
  return kib * 1024;
}

int main(void) {
  expect_subject();
  static void* blocks[kBlocks];
  status("VmSize");
  struct rlimit lockable;
  EXPECT(getrlimit(RLIMIT_MEMLOCK, &lockable) == 0);
  if (geteuid() != 0 && lockable.rlim_cur < 1024 * (rlim_t)kMiB)
    cannot("hardly any memory can be locked here");
  if (mlockall(MCL_CURRENT | MCL_FUTURE) != 0) cannot("memory cannot be locked here");
  for (int i = 0; i < kBlocks; i++) EXPECT((blocks[i] = malloc(kBlockBytes)) != NULL);
  size_t limit = status("VmSize") + 150 * (size_t)kMiB;
  struct rlimit address_space = {limit, limit};
  EXPECT(setrlimit(RLIMIT_AS, &address_space) == 0);
  size_t before = status("VmHWM");
  EXPECT(malloc(200 * (size_t)kMiB) == NULL && errno == ENOMEM);
  size_t grown = status("VmHWM") - before;
  if (grown > 16 * kMiB) dprintf(2, "%zu bytes were filled\n", grown);
  EXPECT(grown <= 16 * kMiB);
  for (int i = 0; i < kBlocks; i++) free(blocks[i]);
  void* block = malloc(200 * (size_t)kMiB);  // returning free memory makes room for it
  if (getenv("EXPECT_SEEMALLOC") != NULL) EXPECT(block != NULL);
  free(block);
  return ok();
}

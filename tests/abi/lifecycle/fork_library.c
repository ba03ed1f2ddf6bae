// A library that the program is linked with: its constructor runs before a preloaded allocator's.
// It calls free(NULL) as the first call of the process, and registers fork handlers that allocate,
// which therefore run around the allocator's own.
#include <pthread.h>

#include "expect.h"

static void use(void) {
  for (size_t size = 8; size < 5000000; size *= 3) free_marked(marked(malloc(size), size), size);
}

__attribute__((constructor)) static void before_the_allocator(void) {
  free(NULL);
  EXPECT(pthread_atfork(use, use, use) == 0);
}

void fork_library_use(void) { use(); }

// Allocation before main and before constructors: .preinit_array of the program, constructors of
// the program and of a library preloaded beside the allocator (early_library.c, in either order).
// main frees the blocks.
#include "expect.h"

static void* from_preinit[3];
static void* from_first;
static void* from_last;

static void preinit(void) {
  from_preinit[0] = marked(malloc(24), 24);
  from_preinit[1] = marked(calloc(10, 1000), 10000);
  from_preinit[2] = marked(aligned_alloc(4096, 1 << 20), 1 << 20);
  free(malloc(40));
}
__attribute__((section(".preinit_array"), used)) static void (*const preinit_entry)(void) = preinit;

__attribute__((constructor(101))) static void first(void) {
  expect_marked(from_preinit[0], 24);
  from_first = marked(malloc(500), 500);
}
__attribute__((constructor)) static void last(void) {
  from_last = marked(realloc(NULL, 70000), 70000);
}

int main(void) {
  expect_subject();
  free_marked(from_preinit[0], 24);
  free_marked(from_preinit[1], 10000);
  free_marked(from_preinit[2], 1 << 20);
  free_marked(from_first, 500);
  from_last = realloc(from_last, 200000);
  EXPECT(from_last != NULL);
  free(from_last);
  void** large = (void**)dlsym(RTLD_DEFAULT, "early_large");
  if (getenv("EARLY_LIBRARY") != NULL) {
    EXPECT(large != NULL && *large != NULL);
    free_marked(*large, 3 << 20);
  }
  return ok();
}

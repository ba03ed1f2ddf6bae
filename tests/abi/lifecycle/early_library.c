// A library preloaded beside seemalloc with a constructor that allocates, possibly before
// seemalloc's own constructor has run.
#include "expect.h"

void* early_small;
void* early_large;

__attribute__((constructor)) static void allocate_early(void) {
  early_small = marked(malloc(100), 100);
  early_large = marked(malloc(3 << 20), 3 << 20);
  for (int i = 0; i < 1000; i++) free(marked(malloc(1 + i * 7), 1 + i * 7));
}

__attribute__((destructor)) static void free_late(void) {
  if (early_small != NULL) free_marked(early_small, 100);
}

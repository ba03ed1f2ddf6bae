// A library preloaded after the allocator. Its constructor runs before the allocator's own. It
// calls the C library's malloc, found by RTLD_NEXT, and the process's malloc_usable_size, realloc
// and free on those blocks.
#include <malloc.h>

#include "expect.h"

void* early_foreign_block;

__attribute__((constructor)) static void take_from_the_next(void) {
  void* (*next)(size_t) = (void* (*)(size_t))dlsym(RTLD_NEXT, "malloc");
  EXPECT(next != NULL);
  size_t sizes[] = {1, 24, 100, 5000, 100000, 300000, 3 << 20};
  for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
    unsigned char* block = marked(next(sizes[i]), sizes[i]);
    unsigned char mark = block[0];
    EXPECT(malloc_usable_size(block) >= sizes[i]);
    expect_marked(block, sizes[i]);
    block = realloc(block, 2 * sizes[i]);
    EXPECT(block != NULL && block[0] == mark && block[sizes[i] - 1] == mark);
    free(block);
    free_marked(marked(next(sizes[i]), sizes[i]), sizes[i]);
  }
  early_foreign_block = marked(next(700), 700);
}

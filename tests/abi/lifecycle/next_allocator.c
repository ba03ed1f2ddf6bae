// Blocks of an allocator that is loaded after seemalloc (other_allocator.c) are passed to it.
#include <malloc.h>

#include "expect.h"

int main(void) {
  expect_subject();
  void* (*take)(size_t) = (void* (*)(size_t))dlsym(RTLD_DEFAULT, "other_malloc");
  size_t* frees = (size_t*)dlsym(RTLD_DEFAULT, "other_frees");
  EXPECT(take != NULL && frees != NULL);
  unsigned long state = 1;
  size_t expected = *frees;
  for (int i = 0; i < 500; i++) {
    size_t size = random_size(&state) % 20000 + 1;
    unsigned char* block = marked(take(size), size);
    unsigned char mark = block[0];
    EXPECT(malloc_usable_size(block) == size);
    if (i % 2 == 0) {
      block = realloc(block, size + 1000);
      EXPECT(block != NULL && block[0] == mark && block[size - 1] == mark);
      EXPECT(*frees == ++expected);
      free(block);
    } else {
      free_marked(block, size);
      expected++;
    }
    EXPECT(*frees == expected);
    free_marked(marked(malloc(size), size), size);
    EXPECT(*frees == expected);
  }
  return ok();
}

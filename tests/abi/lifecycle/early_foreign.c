// A constructor that ran before the allocator's own took a block from the C library's malloc
// (early_foreign_library.c); main frees it.
#include <malloc.h>

#include "expect.h"

int main(void) {
  expect_subject();
  void** block = (void**)dlsym(RTLD_DEFAULT, "early_foreign_block");
  EXPECT(block != NULL && malloc_usable_size(*block) >= 700);
  free_marked(*block, 700);
  return ok();
}

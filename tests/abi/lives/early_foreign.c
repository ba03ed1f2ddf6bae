// A block that a constructor took from the C library's malloc before the allocator's own had run (early_foreign_library.c), freed by main.
#include <malloc.h>

#include "expect.h"

int main(void) {
  expect_subject();
  void** block = (void**)dlsym(RTLD_DEFAULT, "early_foreign_block");
  EXPECT(block != NULL && malloc_usable_size(*block) >= 700);
  free_marked(*block, 700);
  return ok();
}

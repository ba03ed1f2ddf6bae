// A library that still frees and allocates after the program's own destructors have finished.
#include "expect.h"

static void* kept;
void exit_library_keep(void* block) { kept = block; }

__attribute__((destructor)) static void after_the_program(void) {
  if (kept != NULL) free_marked(kept, 4000);
  free_marked(marked(malloc(100000), 100000), 100000);
}

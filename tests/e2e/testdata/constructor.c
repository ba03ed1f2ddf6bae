// A library whose constructor allocates, for the dynamic linker to call before the program begins.
#include <stdlib.h>

void* volatile kept;

__attribute__((constructor, noinline)) void at_load(void) {
  kept = malloc(3000);
  __asm__ volatile("");
}

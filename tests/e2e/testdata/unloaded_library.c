// A library whose blocks outlive it. NAME: the function that allocates, BURN: one that uses the
// processor.
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

__attribute__((noinline)) static void* NAME(size_t bytes) {
  void* block = malloc(bytes);
  memset(block, 1, bytes);
  __asm__ volatile("" : : "r"(block) : "memory");
  return block;
}

__attribute__((noinline)) static long BURN(long ms) {
  long ended = clock() + ms * (CLOCKS_PER_SEC / 1000), turns = 0;
  do {
    for (volatile int i = 0; i < 20000; i++) turns++;
  } while (clock() < ended);
  return turns;
}

long burn(long ms);
long burn(long ms) { return BURN(ms) + 1; }

void fill(size_t bytes, int count);
void fill(size_t bytes, int count) {
  while (count-- > 0) {
    void* block = NAME(bytes);
    __asm__ volatile("" : : "r"(block) : "memory");
  }
}

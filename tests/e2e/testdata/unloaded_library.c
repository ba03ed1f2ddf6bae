// A library whose blocks outlive it. NAME: the function that allocates.
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

__attribute__((noinline)) static void* NAME(size_t bytes) {
  void* block = malloc(bytes);
  memset(block, 1, bytes);
  __asm__ volatile("" : : "r"(block) : "memory");
  return block;
}

void fill(size_t bytes, int count);
void fill(size_t bytes, int count) {
  while (count-- > 0) {
    void* block = NAME(bytes);
    __asm__ volatile("" : : "r"(block) : "memory");
  }
}

// trivial: starts, allocates 100 blocks of 10–1,000 bytes and ends.
//
// Stands for: shells, small tools, the many processes of a container. peak_kib is the fixed cost of
// an allocator.
#include "workload.h"

int main() {
  char* blocks[100];
  for (int i = 0; i < 100; ++i) blocks[i] = workload::allocate_touched(10 * (i + 1));
  for (char* block : blocks) free(block);
  workload::report();
}

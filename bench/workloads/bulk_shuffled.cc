// bulk_shuffled [BLOCKS] [ROUNDS]: allocates BLOCKS blocks of 16–256 bytes, frees all of them in
// random order, and repeats.
//
// Stands for: a long-lived heap whose free lists have lost all order. Allocators that keep lists in
// the order of the frees then return scattered blocks, and each further allocation misses the
// cache.
#include <vector>

#include "workload.h"

int main(int count, char** arguments) {
  const long blocks = workload::argument(count, arguments, 1, 2'000'000);
  const long rounds = workload::argument(count, arguments, 2, 4);
  workload::Random random(1);
  std::vector<char*> all(blocks);
  double allocating = 0, freeing = 0;
  for (long round = 0; round < rounds; ++round) {
    workload::Clock one;
    for (char*& block : all) block = workload::allocate_touched(random.between(16, 256));
    allocating += one.seconds();
    for (long i = blocks - 1; i > 0; --i) std::swap(all[i], all[random.below(i + 1)]);
    workload::Clock two;
    for (char* block : all) free(block);
    freeing += two.seconds();
  }
  workload::metric("allocate_s", allocating);
  workload::metric("free_s", freeing);
  workload::report();
}

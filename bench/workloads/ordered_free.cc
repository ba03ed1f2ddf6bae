// ordered_free [ROUNDS] [BLOCKS]: ROUNDS times, BLOCKS times `new char[32]` into a vector, then all freed in that order.
//
// Stands for: building and dropping a large structure, and for the report of a release that freed in O(n²) because each
// freed page merged with its neighbour and the whole was given back again (14.9 s instead of 0.95 s for 3 × 10 M).
#include <vector>

#include "workload.h"

int main(int count, char** arguments) {
  const long rounds = workload::argument(count, arguments, 1, 3);
  const long blocks = workload::argument(count, arguments, 2, 10'000'000);
  double allocating = 0, freeing = 0;
  for (long round = 0; round < rounds; ++round) {
    std::vector<char*> all;
    workload::Clock one;
    for (long i = 0; i < blocks; ++i) {
      char* block = new char[32];
      workload::touch(block, 32);
      all.push_back(block);
    }
    allocating += one.seconds();
    workload::Clock two;
    for (char* block : all) delete[] block;
    freeing += two.seconds();
  }
  workload::metric("allocate_s", allocating);
  workload::metric("free_s", freeing);
  workload::report();
}

// ping_pong [BYTES] [OPERATIONS]: malloc and free of one block, over and over.
//
// Stands for: temporary objects in a loop. The hottest block is the best one to hand out again; the shortest path wins.
#include "workload.h"

int main(int count, char** arguments) {
  const long bytes = workload::argument(count, arguments, 1, 64);
  const long operations = workload::argument(count, arguments, 2, 200'000'000);
  workload::Clock clock;
  for (long i = 0; i < operations; ++i) {
    char* block = static_cast<char*>(malloc(bytes));
    workload::touch(block, bytes);
    free(block);
  }
  workload::metric("ns_per_operation", clock.seconds() * 1e9 / operations);
  workload::report();
}

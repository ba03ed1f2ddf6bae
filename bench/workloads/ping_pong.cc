// ping_pong [BYTES] [OPERATIONS]: malloc and free of one block, over and over; its first and last
// byte are written.
//
// Stands for: temporary objects in a loop, and with large BYTES for buffers allocated for each
// message. The hottest block is the best one to reuse; the shortest path wins, and returning memory
// to the OS immediately loses.
#include "workload.h"

int main(int count, char** arguments) {
  const long bytes = workload::argument(count, arguments, 1, 64);
  const long operations = workload::argument(count, arguments, 2, 200'000'000);
  workload::Clock clock;
  for (long i = 0; i < operations; ++i) {
    char* block = workload::allocate_touched(bytes);
    free(block);
  }
  workload::metric("ns_per_operation", clock.seconds() * 1e9 / operations);
  workload::report();
}

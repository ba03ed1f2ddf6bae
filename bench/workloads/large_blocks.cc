// large_blocks [PERCENT] [OPERATIONS] [LIVE]: LIVE blocks of 256 KiB–16 MiB (each doubling equally
// likely); a random one is replaced, OPERATIONS times. The first PERCENT of each block is written,
// one byte in each 4 KiB.
//
// Stands for: images, tensors, columns, I/O buffers. Memory that is returned to the OS at each free
// must be faulted in again page by page; memory that is cached must not accumulate, and pages that
// the program never writes must not become resident.
#include <vector>

#include "workload.h"

namespace {

char* make(workload::Random& random, long percent) {
  const size_t base = size_t{256 << 10} << random.below(6);
  const size_t bytes = random.between(base, 2 * base);
  char* block = workload::allocate_touched(bytes);
  for (size_t at = 0; at < bytes / 100 * percent; at += 4096) block[at] = 1;
  return block;
}

}  // namespace

int main(int count, char** arguments) {
  const long percent = workload::argument(count, arguments, 1, 100);
  const long operations = workload::argument(count, arguments, 2, 3'000);
  const long live = workload::argument(count, arguments, 3, 32);
  workload::Random random(1);
  std::vector<char*> blocks(live);
  for (char*& block : blocks) block = make(random, percent);
  workload::Clock clock;
  for (long i = 0; i < operations; ++i) {
    char*& block = blocks[random.below(live)];
    free(block);
    block = make(random, percent);
  }
  workload::metric("us_per_operation", clock.seconds() * 1e6 / operations);
  for (char* block : blocks) free(block);
  workload::report();
}

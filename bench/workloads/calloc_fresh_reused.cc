// calloc_fresh_reused [REUSED] [LARGE] [BLOCKS]: calloc of BLOCKS blocks. REUSED 0: the heap only
// grows, so nearly all memory is fresh from the OS and zero already. REUSED 1: 1,000 blocks are
// live, a random one is freed before each calloc, so all memory must be zeroed. LARGE 0: 16–1,015
// bytes; LARGE 1: 32–1,024 KiB, of which the program writes two bytes.
//
// Stands for: hash tables, interpreters' objects, zeroed buffers. Zeroing memory that is known to
// be zero costs time and, with large blocks, makes pages resident that the program never writes.
#include <vector>

#include "workload.h"

int main(int count, char** arguments) {
  const bool reused = workload::argument(count, arguments, 1, 0) != 0;
  const bool large = workload::argument(count, arguments, 2, 0) != 0;
  const long blocks = workload::argument(count, arguments, 3, 1'000'000);
  constexpr long kLive = 1000;
  workload::Random random(1);
  std::vector<char*> all(reused ? kLive : blocks);
  workload::Clock clock;
  for (long i = 0; i < blocks; ++i) {
    const size_t bytes = large ? random.between(32 << 10, 1024 << 10) : random.between(16, 1015);
    char*& block = all[reused ? random.below(kLive) : i];
    free(block);
    block = static_cast<char*>(calloc(1, bytes));
    workload::touch(block, bytes);
  }
  workload::metric("ns_per_operation", clock.seconds() * 1e9 / blocks);
  for (char* block : all) free(block);
  workload::report();
}

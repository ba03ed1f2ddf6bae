// random_replace [THREADS] [LIVE] [OPERATIONS]: each thread keeps LIVE blocks of 16–1015 bytes and
// replaces a random one, until all threads together have done OPERATIONS.
//
// Stands for: a server or cache in its steady state. With LIVE small it measures the fast paths,
// with LIVE large how well blocks are packed (cache and TLB misses); with more threads than cores,
// whether threads block each other.
#include <thread>
#include <vector>

#include "workload.h"

namespace {

void replace(uint64_t seed, long live, long operations) {
  workload::Random random(seed);
  std::vector<char*> blocks(live);
  for (char*& block : blocks) block = workload::allocate_touched(random.between(16, 1015));
  for (long i = 0; i < operations; ++i) {
    char*& block = blocks[random.below(live)];
    free(block);
    block = workload::allocate_touched(random.between(16, 1015));
  }
  for (char* block : blocks) free(block);
}

}  // namespace

int main(int count, char** arguments) {
  const long threads = workload::argument(count, arguments, 1, 1);
  const long live = workload::argument(count, arguments, 2, 10'000);
  const long operations = workload::argument(count, arguments, 3, 40'000'000);
  workload::Clock clock;
  std::vector<std::thread> running;
  for (long i = 0; i < threads; ++i)
    running.emplace_back(replace, i + 1, live, operations / threads);
  for (auto& thread : running) thread.join();
  workload::metric("ns_per_operation", clock.seconds() * 1e9 / operations);
  workload::report();
}

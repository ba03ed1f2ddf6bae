// short_threads [THREADS] [AT_ONCE] [BLOCKS]: THREADS threads one after the other, AT_ONCE at a
// time; each allocates BLOCKS blocks of 16 bytes–8 KiB (each doubling equally likely), frees them
// and ends.
//
// Stands for: programs that start a thread for every task. Measures the cost of a thread's first
// allocations and of its end; peak RSS shows the memory that ended threads leave behind.
#include <thread>
#include <vector>

#include "workload.h"

namespace {

void task(uint64_t seed, long blocks) {
  workload::Random random(seed);
  std::vector<char*> all(blocks);
  for (char*& block : all) {
    const size_t base = size_t{16} << random.below(9);
    block = workload::allocate_touched(random.between(base, 2 * base));
  }
  for (char* block : all) free(block);
}

void start_all(uint64_t first, uint64_t last, long blocks) {
  for (uint64_t i = first; i < last; ++i) std::thread(task, i + 1, blocks).join();
}

}  // namespace

int main(int count, char** arguments) {
  const long threads = workload::argument(count, arguments, 1, 20'000);
  const long at_once = workload::argument(count, arguments, 2, 2);
  const long blocks = workload::argument(count, arguments, 3, 200);
  workload::Clock clock;
  std::vector<std::thread> starting;
  for (long i = 0; i < at_once; ++i)
    starting.emplace_back(start_all, i * threads / at_once, (i + 1) * threads / at_once, blocks);
  for (auto& thread : starting) thread.join();
  workload::metric("us_per_thread", clock.seconds() * 1e6 / threads);
  workload::report();
}

// grow_heap [MB] [THREADS]: allocates objects of 64–1,024 bytes until there are MB of them in all
// threads together; then the program ends without freeing any.
//
// Stands for: the load phase of a server, compilers, short-lived tools. Every page is new, so page
// faults and the system calls that get memory are most of the time: measures how much memory is
// requested at a time, and how much of it is never used.
#include <thread>
#include <vector>

#include "workload.h"

namespace {

void grow(uint64_t seed, size_t total) {
  workload::Random random(seed);
  for (size_t sum = 0; sum < total;) {
    const size_t bytes = random.between(64, 1024);
    workload::allocate_touched(bytes);
    sum += bytes;
  }
}

}  // namespace

int main(int count, char** arguments) {
  const size_t total = workload::argument(count, arguments, 1, 500) * 1'000'000;
  const long threads = workload::argument(count, arguments, 2, 1);
  workload::Clock clock;
  std::vector<std::thread> running;
  for (long i = 0; i < threads; ++i) running.emplace_back(grow, i + 1, total / threads);
  for (auto& thread : running) thread.join();
  workload::metric("ns_per_page", clock.seconds() * 1e9 / (total / 4096.0));
  workload::report();
}

// phase_change [ENDED] [THREADS] [MB]: phase 1: THREADS threads together allocate MB of blocks of
// 16–2,048 bytes, and free all of them. Phase 2: the same number of other threads allocate the same
// again. Between the phases the first threads end if ENDED is 1; otherwise they stay alive and
// idle.
//
// Stands for: a program that loads with one pool of threads and works with another; in the
// published report ptmalloc2 took another 300 MB for phase 2. growth_percent is the growth of the
// peak from phase 1 to phase 2: 0 is right.
#include <latch>
#include <thread>
#include <vector>

#include "workload.h"

namespace {

struct Phase {
  explicit Phase(long threads) : allocated(threads), freed(threads) {}
  std::latch allocated;  // all threads hold all of their blocks at the same time
  std::latch freed;
};

void work(Phase& phase, uint64_t seed, size_t bytes, std::latch& end) {
  workload::Random random(seed);
  std::vector<char*> blocks;
  blocks.reserve(bytes / 900);
  for (size_t sum = 0; sum < bytes;) {
    const size_t one = random.between(16, 2048);
    blocks.push_back(workload::allocate_touched(one));
    sum += one;
  }
  phase.allocated.arrive_and_wait();
  for (char* block : blocks) free(block);
  phase.freed.count_down();
  end.wait();
}

}  // namespace

int main(int count, char** arguments) {
  const bool ended = workload::argument(count, arguments, 1, 0) != 0;
  const long threads = workload::argument(count, arguments, 2, 4);
  const size_t bytes = workload::argument(count, arguments, 3, 300) * 1'000'000;
  Phase first(threads), second(threads);
  std::latch end_first(1), end_second(0);
  std::vector<std::thread> early, late;
  for (long i = 0; i < threads; ++i)
    early.emplace_back(work, std::ref(first), i + 1, bytes / threads, std::ref(end_first));
  first.freed.wait();
  if (ended) {
    end_first.count_down();
    for (auto& thread : early) thread.join();
  }
  const double before = workload::peak_kib();
  for (long i = 0; i < threads; ++i)
    late.emplace_back(work, std::ref(second), i + 1, bytes / threads, std::ref(end_second));
  for (auto& thread : late) thread.join();
  const double after = workload::peak_kib();
  if (!ended) {
    end_first.count_down();
    for (auto& thread : early) thread.join();
  }
  workload::metric("growth_percent", (after / before - 1) * 100);
  workload::report();
}

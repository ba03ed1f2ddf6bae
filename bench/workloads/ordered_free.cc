// ordered_free [ROUNDS] [BLOCKS] [SHUFFLED] [RUNS] [ROOM]: in each of ROUNDS, stores BLOCKS results
// of `new char[32]` in a vector, then frees all in that order (SHUFFLED 1: in random order). RUNS
// above 1: each in a process of its own, one after the other; the median of their times is printed.
// ROOM 1: the vector has its capacity from the start, and keeps it; otherwise it is copied
// log2(BLOCKS) times a round, whose share in the time per block is up to twice as large just above
// a power of two as just below.
//
// Stands for: building and dropping a large structure, and for the report of a release that freed
// in O(n²) because each freed page merged with its neighbour and the whole was returned to the OS
// again (14.9 s instead of 0.95 s for 3 × 10 M).
#include <sys/mman.h>
#include <sys/wait.h>

#include <algorithm>
#include <vector>

#include "workload.h"

namespace {

struct Times {
  double allocating = 0, freeing = 0;  // seconds
  double sum() const { return allocating + freeing; }
};

void shuffle(std::vector<char*>& all) {
  workload::Random random(1);
  for (size_t i = all.size() - 1; i > 0; --i) std::swap(all[i], all[random.below(i + 1)]);
}

Times run(long rounds, long blocks, bool shuffled, bool room) {
  Times times;
  std::vector<char*> all;
  if (room) all.resize(blocks);  // touched
  for (long round = 0; round < rounds; ++round) {
    all.clear();
    if (!room) all.shrink_to_fit();
    workload::Clock one;
    for (long i = 0; i < blocks; ++i) {
      char* block = new char[32];
      workload::touch(block, 32);
      all.push_back(block);
    }
    times.allocating += one.seconds();
    if (shuffled) shuffle(all);
    workload::Clock two;
    for (char* block : all) delete[] block;
    times.freeing += two.seconds();
  }
  return times;
}

// The median of the runs, by the sum of allocating and freeing time. A heap that an earlier run has
// used would behave differently: each run has a process of its own.
Times median_of(long runs, long rounds, long blocks, bool shuffled, bool room) {
  void* shared = mmap(nullptr, runs * sizeof(Times), PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) exit(1);
  Times* times = static_cast<Times*>(shared);
  for (long i = 0; i < runs; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      times[i] = run(rounds, blocks, shuffled, room);
      _exit(0);
    }
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0) exit(1);
  }
  std::sort(times, times + runs, [](const Times& a, const Times& b) { return a.sum() < b.sum(); });
  return times[runs / 2];
}

}  // namespace

int main(int count, char** arguments) {
  const long rounds = workload::argument(count, arguments, 1, 3);
  const long blocks = workload::argument(count, arguments, 2, 10'000'000);
  const bool shuffled = workload::argument(count, arguments, 3, 0) != 0;
  const long runs = workload::argument(count, arguments, 4, 1);
  const bool room = workload::argument(count, arguments, 5, 0) != 0;
  const Times times = runs > 1 ? median_of(runs, rounds, blocks, shuffled, room)
                               : run(rounds, blocks, shuffled, room);
  const double per_block = 1e9 / (static_cast<double>(rounds) * blocks);
  workload::metric("allocate_s", times.allocating);
  workload::metric("free_s", times.freeing);
  workload::metric("allocate_ns", times.allocating * per_block);
  workload::metric("free_ns", times.freeing * per_block);
  workload::metric("ns_per_block", times.sum() * per_block);
  workload::report();
}

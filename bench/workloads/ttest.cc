// ttest [THREADS] [MAX] [OPERATIONS] [ROUNDS]: each thread has an array of bins and repeatedly
// empties 1–30 random ones and fills the same number, with blocks of 1–MAX bytes; of 1,024 blocks 4
// come from aligned_alloc, 16 from calloc, 80 from realloc of the bin's old block, the others from
// malloc. ROUNDS times the threads end and others are started in their places. The bins of all
// threads together hold about 8 MB, and there are at least 16 per thread.
//
// Stands for: the pattern of t-test1 (Wolfram Gloger, ptmalloc), with which allocators have been
// compared since 1996; TCMalloc published its figures with it: 1–20 threads, 64 B–128 KiB.
#include <algorithm>
#include <thread>
#include <vector>

#include "workload.h"

namespace {

void fill(char*& bin, size_t bytes, workload::Random& random) {
  const uint64_t kind = random.below(1024);
  if (kind < 100 && kind >= 20) {
    bin = static_cast<char*>(realloc(bin, bytes));
  } else {
    free(bin);
    if (kind < 4) {
      bin = static_cast<char*>(aligned_alloc(16 << kind, bytes));
    } else if (kind < 20) {
      bin = static_cast<char*>(calloc(1, bytes));
    } else {
      bin = static_cast<char*>(malloc(bytes));
    }
  }
  workload::touch(bin, bytes);
}

void work(uint64_t seed, size_t bins, size_t max, long operations) {
  workload::Random random(seed);
  std::vector<char*> all(bins);
  for (long done = 0; done < operations;) {
    const long some = random.between(1, 30);
    for (long i = 0; i < some; ++i) {
      char*& bin = all[random.below(bins)];
      free(bin);
      bin = nullptr;
    }
    for (long i = 0; i < some; ++i) fill(all[random.below(bins)], random.between(1, max), random);
    done += some;
  }
  for (char* block : all) free(block);
}

}  // namespace

int main(int count, char** arguments) {
  const long threads = workload::argument(count, arguments, 1, 2);
  const long max = workload::argument(count, arguments, 2, 1024);
  const long operations = workload::argument(count, arguments, 3, 20'000'000);
  const long rounds = workload::argument(count, arguments, 4, 20);
  const long bins = std::max(16L, 8'000'000 / (max / 2) / threads);
  workload::Clock clock;
  std::vector<std::thread> running(threads);
  for (long round = 0; round < rounds; ++round) {
    for (long i = 0; i < threads; ++i) {
      if (running[i].joinable()) running[i].join();
      running[i] =
          std::thread(work, round * threads + i + 1, bins, max, operations / threads / rounds);
    }
  }
  for (auto& thread : running) thread.join();
  workload::metric("ns_per_operation", clock.seconds() * 1e9 / operations);
  workload::report();
}

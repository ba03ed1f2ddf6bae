// churn [THREADS] [LIVE_MB] [TOTAL_GB]: each thread keeps its share of LIVE_MB alive and replaces blocks of 256 bytes to 4 MiB
// until TOTAL_GB have been allocated, and freed, by all together. Each page of each block is written to.
//
// Stands for: everything that allocates for as long as it runs: what is resident, how often the kernel must bring pages and
// how many mappings there are depends on what is alive, not on what has passed through.
#include <atomic>

#include "live_heap.h"
#include "timeline.h"

namespace {

std::atomic<size_t> allocated_bytes;

void work(uint64_t seed, size_t live_bytes, size_t total_bytes) {
  workload::LiveHeap heap(seed, live_bytes, live_bytes / 512);
  while (heap.allocated_bytes() < total_bytes) heap.replace(256, 4 << 20, free);
  allocated_bytes += heap.allocated_bytes();
  heap.free_all();
}

}  // namespace

int main(int count, char** arguments) {
  const long threads = workload::argument(count, arguments, 1, 2);
  const size_t live = workload::argument(count, arguments, 2, 200) * 1'000'000;
  const size_t total = workload::argument(count, arguments, 3, 100) * 1'000'000'000;
  workload::Timeline timeline;
  workload::Clock clock;
  timeline.watch_threads(threads, [&](long i) { work(i + 1, live / threads, total / threads); });
  workload::metric("gb_per_s", allocated_bytes / 1e9 / clock.seconds());
  workload::metric("live_kib", live / 1024.0);
  timeline.print();
  workload::report();
}

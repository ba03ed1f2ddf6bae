// churn [THREADS] [LIVE_MB] [TOTAL_GB] [SECONDS]: each thread keeps its share of LIVE_MB alive and replaces blocks of 256 bytes to 4 MiB
// until TOTAL_GB have been allocated, and freed, by all together. Each page of each block is written to. With SECONDS it pauses in
// between, so that it takes at least as long: what works by the clock has time to work.
//
// Stands for: everything that allocates for as long as it runs: what is resident, how often the kernel must bring pages and
// how many mappings there are depends on what is alive, not on what has passed through.
#include <atomic>
#include <chrono>
#include <thread>

#include "live_heap.h"
#include "timeline.h"

namespace {

std::atomic<size_t> allocated_bytes;

void work(uint64_t seed, size_t live_bytes, size_t total_bytes, double seconds) {
  constexpr double kAhead_s = 1e-3;
  workload::LiveHeap heap(seed, live_bytes, live_bytes / 512);
  workload::Clock clock;
  const double seconds_per_byte = seconds / static_cast<double>(total_bytes);
  while (heap.allocated_bytes() < total_bytes) {
    heap.replace(256, 4 << 20, free);
    const double ahead = static_cast<double>(heap.allocated_bytes()) * seconds_per_byte - clock.seconds();
    if (ahead > kAhead_s) std::this_thread::sleep_for(std::chrono::duration<double>(ahead));
  }
  allocated_bytes += heap.allocated_bytes();
  heap.free_all();
}

}  // namespace

int main(int count, char** arguments) {
  const long threads = workload::argument(count, arguments, 1, 2);
  const size_t live = workload::argument(count, arguments, 2, 200) * 1'000'000;
  const size_t total = workload::argument(count, arguments, 3, 100) * 1'000'000'000;
  const double seconds = static_cast<double>(workload::argument(count, arguments, 4, 0));
  workload::Timeline timeline;
  workload::Clock clock;
  timeline.watch_threads(threads, [&](long i) { work(i + 1, live / threads, total / threads, seconds); });
  workload::metric("gb_per_s", allocated_bytes / 1e9 / clock.seconds());
  workload::metric("live_kib", live / 1024.0);
  timeline.print();
  workload::report();
}

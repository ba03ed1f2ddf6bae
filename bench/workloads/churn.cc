// churn [THREADS] [LIVE_MB] [TOTAL_GB] [SECONDS]: each thread keeps its share of LIVE_MB live and
// replaces blocks of 256 bytes to 4 MiB until all threads together have allocated, and freed,
// TOTAL_GB. Each page of each block is written to. With SECONDS it pauses in between, so that it
// takes at least this long: time-based mechanisms get time to work.
//
// Stands for: every program that allocates for as long as it runs: resident memory, page faults and
// the number of mappings must depend on the live data, not on the amount ever allocated.
#include <atomic>
#include <chrono>
#include <thread>

#include "live_heap.h"
#include "timeline.h"

namespace {

std::atomic<size_t> allocated_bytes;

void work(uint64_t seed, size_t live_bytes, size_t total_bytes, double seconds) {
  constexpr double kAheadS = 1e-3;
  workload::LiveHeap heap(seed, live_bytes, live_bytes / 512);
  workload::Clock clock;
  const double seconds_per_byte = seconds / static_cast<double>(total_bytes);
  while (heap.allocated_bytes() < total_bytes) {
    heap.replace(256, 4 << 20, free);
    const double ahead =
        static_cast<double>(heap.allocated_bytes()) * seconds_per_byte - clock.seconds();
    if (ahead > kAheadS) std::this_thread::sleep_for(std::chrono::duration<double>(ahead));
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
  timeline.watch_threads(threads,
                         [&](long i) { work(i + 1, live / threads, total / threads, seconds); });
  workload::metric("gb_per_s", allocated_bytes / 1e9 / clock.seconds());
  workload::metric("live_kib", live / 1024.0);
  timeline.print();
  workload::report();
}

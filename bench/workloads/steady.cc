// steady [THREADS] [LIVE_MB] [OPERATIONS] [DAYS]: each thread keeps its share of LIVE_MB live and
// replaces blocks, OPERATIONS in total; one in eight is freed by another thread. Over a day sizes
// drift from 16–512 bytes to 16 bytes–64 KiB and back.
//
// Stands for: a server that is busy for weeks, with a live heap that does not grow; time is
// compressed: nothing waits. Any growth is then fragmentation, thread caches, and blocks that wait
// for another thread. The first quarter of the run warms up: it has whole days, so that each kind
// of block has occurred.
#include <atomic>
#include <cmath>
#include <numbers>

#include "live_heap.h"
#include "timeline.h"

namespace {

constexpr int kTables = 1024;
std::atomic<char*> handed_over[kTables];

// Frees the block, or leaves it in a random slot for another thread and frees the block found
// there.
void on_evicted(workload::Random& random, char* block) {
  if (random.below(8) == 0)
    block = handed_over[random.below(kTables)].exchange(block, std::memory_order_acq_rel);
  free(block);
}

void work(uint64_t seed, size_t live_bytes, long operations, long days) {
  workload::LiveHeap heap(seed, live_bytes, live_bytes / 32);
  double largest = 512;
  for (long i = 0; i < operations; ++i) {
    if (i % 1024 == 0) {
      const double hour = 2 * std::numbers::pi * days * i / operations;
      largest = 512 * std::exp2(7 * (1 - std::cos(hour)) / 2);
    }
    heap.replace(16, largest, [&](char* victim) { on_evicted(heap.random(), victim); });
  }
  heap.free_all();
}

}  // namespace

int main(int count, char** arguments) {
  const long threads = workload::argument(count, arguments, 1, 4);
  const size_t live = workload::argument(count, arguments, 2, 100) * 1'000'000;
  const long operations = workload::argument(count, arguments, 3, 60'000'000);
  const long days = workload::argument(count, arguments, 4, 16);
  workload::Timeline timeline;
  workload::Clock clock;
  timeline.watch_threads(threads,
                         [&](long i) { work(i + 1, live / threads, operations / threads, days); });
  workload::metric("ns_per_operation", clock.seconds() * 1e9 / operations);
  for (auto& place : handed_over) free(place.exchange(nullptr));
  workload::metric("live_kib", live / 1024.0);
  timeline.print();
  workload::report();
}

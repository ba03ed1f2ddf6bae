// producer_consumer [PAIRS] [BLOCKS]: in each pair one thread allocates and another frees, through a ring of 4,096 places.
//
// Stands for: pipelines, message queues, RPC servers: blocks always die in another thread than they were born in. Measures
// the way back of remote frees, and shows in peak RSS when it does not keep up.
#include <atomic>
#include <thread>
#include <vector>

#include "workload.h"

namespace {

constexpr size_t kPlaces = 4096;

struct Ring {
  alignas(64) std::atomic<size_t> written{0};
  alignas(64) std::atomic<size_t> taken{0};
  alignas(64) char* places[kPlaces];
};

void produce(Ring& ring, long blocks, uint64_t seed) {
  workload::Random random(seed);
  for (long i = 0; i < blocks; ++i) {
    const size_t bytes = 16 + random.below(500);
    char* block = static_cast<char*>(malloc(bytes));
    workload::touch(block, bytes);
    const size_t at = ring.written.load(std::memory_order_relaxed);
    while (at - ring.taken.load(std::memory_order_acquire) == kPlaces) std::this_thread::yield();
    ring.places[at % kPlaces] = block;
    ring.written.store(at + 1, std::memory_order_release);
  }
}

void consume(Ring& ring, long blocks) {
  for (long i = 0; i < blocks; ++i) {
    const size_t at = ring.taken.load(std::memory_order_relaxed);
    while (at == ring.written.load(std::memory_order_acquire)) std::this_thread::yield();
    char* block = ring.places[at % kPlaces];
    ring.taken.store(at + 1, std::memory_order_release);
    workload::touch(block, 16);
    free(block);
  }
}

}  // namespace

int main(int count, char** arguments) {
  const long pairs = workload::argument(count, arguments, 1, 1);
  const long blocks = workload::argument(count, arguments, 2, 20'000'000);
  std::vector<Ring> rings(pairs);
  workload::Clock clock;
  std::vector<std::thread> threads;
  for (long i = 0; i < pairs; ++i) {
    threads.emplace_back(produce, std::ref(rings[i]), blocks / pairs, i + 1);
    threads.emplace_back(consume, std::ref(rings[i]), blocks / pairs);
  }
  for (auto& thread : threads) thread.join();
  workload::metric("ns_per_block", clock.seconds() * 1e9 / blocks);
  workload::report();
}

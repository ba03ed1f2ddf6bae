// producer_consumer [PAIRS] [BLOCKS] [RING]: in each pair one thread allocates blocks of 16–515
// bytes and another frees them; up to RING blocks of a pair are in transit.
//
// Stands for: pipelines, message queues, RPC servers: blocks are always freed by a thread other
// than the one that allocated them. Measures how remote frees reach the owner, and shows in peak
// RSS when that is too slow.
//
// Waiting: a ring is two halves. The producer fills one while the consumer empties the other; the
// first to finish waits for the other, so the number of blocks in transit does not depend on which
// thread is ahead. It polls the other's count for 50 µs, which is enough for small rings, because
// waking up costs more than the work on half of one; then it sleeps on a condition variable, so
// that on a busy machine it gets its processor back when there is work.
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "workload.h"

namespace {

// The number of halves that one of the two has finished.
class alignas(64) Progress {
 public:
  void advance() {
    {
      std::lock_guard lock(mutex_);
      done_.store(done_.load(std::memory_order_relaxed) + 1, std::memory_order_release);
    }
    changed_.notify_one();
  }
  void wait_for(long halves) {
    const auto reached = [&] { return done_.load(std::memory_order_acquire) >= halves; };
    workload::Clock watching;
    while (!reached()) {
      if (watching.seconds() < 50e-6) continue;
      std::unique_lock lock(mutex_);
      changed_.wait(lock, reached);
    }
  }

 private:
  std::atomic<long> done_{0};
  std::mutex mutex_;
  std::condition_variable changed_;
};

struct Pair {
  Progress filled;
  Progress emptied;
  std::vector<char*> half[2];
};

void produce(Pair& pair, uint64_t seed, long halves) {
  workload::Random random(seed);
  for (long i = 0; i < halves; ++i) {
    pair.emptied.wait_for(i - 1);
    for (char*& place : pair.half[i % 2])
      place = workload::allocate_touched(random.between(16, 515));
    pair.filled.advance();
  }
}

void consume(Pair& pair, long halves) {
  for (long i = 0; i < halves; ++i) {
    pair.filled.wait_for(i + 1);
    for (char* block : pair.half[i % 2]) {
      workload::touch(block, 16);
      free(block);
    }
    pair.emptied.advance();
  }
}

}  // namespace

int main(int count, char** arguments) {
  const long pairs = workload::argument(count, arguments, 1, 1);
  const long blocks = workload::argument(count, arguments, 2, 20'000'000);
  const long ring = workload::argument(count, arguments, 3, 4096);
  const long halves = blocks / pairs / (ring / 2);
  std::vector<Pair> all(pairs);
  for (Pair& pair : all)
    for (auto& half : pair.half) half.resize(ring / 2);
  workload::Clock clock;
  std::vector<std::thread> threads;
  for (long i = 0; i < pairs; ++i) {
    threads.emplace_back(produce, std::ref(all[i]), i + 1, halves);
    threads.emplace_back(consume, std::ref(all[i]), halves);
  }
  for (auto& thread : threads) thread.join();
  workload::metric("ns_per_block", clock.seconds() * 1e9 / blocks);
  workload::report();
}

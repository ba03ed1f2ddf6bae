// n_to_m [PRODUCERS] [CONSUMERS] [BLOCKS]: PRODUCERS threads allocate blocks of 16–515 bytes,
// CONSUMERS threads free them; any consumer may get a block.
//
// Stands for: a pool of readers and a pool of workers around one queue. Every freeing thread holds
// blocks of every allocating one, so batching the frees by owner is harder than for a pair; and
// there are more threads than cores.
//
// Waiting: blocks are passed in crates of 256 under one lock, 64 crates in total; a thread that
// finds no crate sleeps on a condition variable. Sleeping is right here, as there is always another
// thread with work to do.
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "workload.h"

namespace {

constexpr long kCrateBlocks = 256;
constexpr long kCrates = 64;

struct Crate {
  char* blocks[kCrateBlocks];
};

// Crates of one kind: full or empty.
class Shelf {
 public:
  Shelf() { crates_.reserve(kCrates); }
  void put(Crate* crate) {
    {
      std::lock_guard lock(mutex_);
      crates_.push_back(crate);
    }
    changed_.notify_one();
  }
  // Waits; null when the shelf is empty and closed.
  Crate* take() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return closed_ || !crates_.empty(); });
    if (crates_.empty()) return nullptr;
    Crate* crate = crates_.back();
    crates_.pop_back();
    return crate;
  }
  void close() {
    {
      std::lock_guard lock(mutex_);
      closed_ = true;
    }
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Crate*> crates_;
  bool closed_ = false;
};

Shelf full, empty;

void produce(uint64_t seed, long crates) {
  workload::Random random(seed);
  for (long i = 0; i < crates; ++i) {
    Crate* crate = empty.take();
    for (char*& block : crate->blocks) block = workload::allocate_touched(random.between(16, 515));
    full.put(crate);
  }
}

void consume() {
  while (Crate* crate = full.take()) {
    for (char* block : crate->blocks) {
      workload::touch(block, 16);
      free(block);
    }
    empty.put(crate);
  }
}

}  // namespace

int main(int count, char** arguments) {
  const long producers = workload::argument(count, arguments, 1, 2);
  const long consumers = workload::argument(count, arguments, 2, 2);
  const long blocks = workload::argument(count, arguments, 3, 20'000'000);
  std::vector<Crate> crates(kCrates);
  for (Crate& crate : crates) empty.put(&crate);
  workload::Clock clock;
  std::vector<std::thread> producing, consuming;
  for (long i = 0; i < consumers; ++i) consuming.emplace_back(consume);
  for (long i = 0; i < producers; ++i)
    producing.emplace_back(produce, i + 1, blocks / producers / kCrateBlocks);
  for (auto& thread : producing) thread.join();
  full.close();
  for (auto& thread : consuming) thread.join();
  workload::metric("ns_per_block", clock.seconds() * 1e9 / blocks);
  workload::report();
}

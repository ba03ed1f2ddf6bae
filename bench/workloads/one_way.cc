// one_way [SECONDS] [CRATES]: for SECONDS one thread only allocates and another one only frees;
// CRATES crates of 1,024 blocks are in transit, or SLACK fewer. Blocks of 16 bytes to 64 KiB, the
// same number of bytes in each octave.
//
// Stands for: reader and writer of a pipeline. No block is freed by the thread that allocated it,
// so the freeing thread gathers memory that it never allocates from, and the allocating thread gets
// its own memory back only if the allocator returns it (in one report 437 MiB grew to 1.8 GiB).
#include <algorithm>
#include <array>
#include <atomic>
#include <semaphore>

#include "live_heap.h"
#include "timeline.h"

namespace {

using Crate = std::array<char*, 1024>;

// The least that keeps both threads busy: the live bytes must not depend on which of them is ahead.
constexpr long SLACK = 8;

struct Belt {
  std::vector<Crate> crates;
  std::counting_semaphore<> full{0}, empty;
  std::binary_semaphore filled{0};
  std::atomic<bool> stop{false};
  std::atomic<long> sent{0};
  long kept() const { return static_cast<long>(crates.size()) - SLACK; }
  explicit Belt(long count) : crates(count), empty(count) {}
};

// Ends with a crate of nulls and the permission to empty the belt.
void produce(Belt& belt) {
  workload::Random random(1);
  for (long i = 0;; ++i) {
    const bool stop = belt.stop;
    belt.empty.acquire();
    for (char*& place : belt.crates[i % belt.crates.size()])
      place = stop ? nullptr : workload::fresh_pages(workload::mixed_size(random, 16, 64 << 10));
    belt.full.release(stop ? 1 + belt.kept() : 1);
    if (stop) return;
    belt.sent = i + 1;
  }
}

// Begins when the belt is full except for the slack, and keeps it so.
void consume(Belt& belt) {
  for (long i = 0; i < belt.kept(); ++i) belt.full.acquire();
  belt.filled.release();
  for (long i = 0;; ++i) {
    belt.full.acquire();
    Crate& crate = belt.crates[i % belt.crates.size()];
    if (!crate[0]) return;
    for (char* block : crate) free(block);
    belt.empty.release();
  }
}

}  // namespace

int main(int count, char** arguments) {
  const double seconds = static_cast<double>(workload::argument(count, arguments, 1, 60));
  const long crates = std::max(SLACK + 1, workload::argument(count, arguments, 2, 256));
  Belt belt(crates);
  std::thread producer(produce, std::ref(belt)), consumer(consume, std::ref(belt));
  belt.filled.acquire();  // on a busy machine the first crates take longer than SECONDS
  const long first = belt.sent;
  workload::Timeline timeline;
  workload::Clock clock;
  timeline.watch([&] { return clock.seconds() >= seconds; });
  const double blocks = 1024.0 * (belt.sent - first);
  workload::metric("blocks_per_s", blocks / clock.seconds());
  belt.stop = true;
  producer.join();
  consumer.join();
  timeline.print();
  workload::report();
}

// shared_pointers [COPIES] [OBJECTS]: copies and drops std::shared_ptr to objects all over the
// heap. One thread.
//
// Stands for: single-threaded programs in modern C++. libstdc++ counts without atomics as long as
// the C library knows of one thread, so an allocator that starts a thread of its own by
// pthread_create makes each copy several times as slow.
#include <memory>
#include <vector>

#include "workload.h"

int main(int count, char** arguments) {
  const long copies = workload::argument(count, arguments, 1, 200'000'000);
  const long objects = workload::argument(count, arguments, 2, 100'000);
  std::vector<std::shared_ptr<long>> all;
  for (long i = 0; i < objects; ++i) all.push_back(std::make_shared<long>(i));
  // By now an allocator has started its background thread, if it uses one.
  workload::wait_ms(100);
  workload::Clock clock;
  long sum = 0;
  for (long i = 0; i < copies; ++i) {
    // Copies only few of the objects, because this does not measure the processor's caches.
    std::shared_ptr<long> copy = all[i % 64];
    asm volatile("" : : "r"(copy.get()) : "memory");
    sum += *copy;
  }
  workload::metric("ns_per_copy", clock.seconds() * 1e9 / copies);
  if (sum < 0) return 1;
  workload::report();
}

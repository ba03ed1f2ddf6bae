// characters [CHARACTERS] [MEGABYTES]: writes CHARACTERS characters to /dev/null by putc, with
// MEGABYTES on the heap. One thread.
//
// Stands for: filters and tools that read and write characters. stdio locks nothing as long as the
// C library knows of one thread, so an allocator that starts a thread of its own by pthread_create
// makes each character several times as slow.
#include <vector>

#include "workload.h"

int main(int count, char** arguments) {
  const long characters = workload::argument(count, arguments, 1, 400'000'000);
  const long megabytes = workload::argument(count, arguments, 2, 20);
  std::vector<char*> heap;
  for (long i = 0; i < megabytes * 1000; ++i) heap.push_back(workload::allocate_touched(1000));
  FILE* out = fopen("/dev/null", "w");
  if (out == nullptr) return 1;
  // By now an allocator has started its background thread, if it uses one.
  workload::wait_ms(100);
  workload::Clock clock;
  for (long i = 0; i < characters; ++i) putc('a' + i % 26, out);
  workload::metric("ns_per_character", clock.seconds() * 1e9 / characters);
  fclose(out);
  for (char* block : heap) free(block);
  workload::report();
}

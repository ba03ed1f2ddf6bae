// idle_threads [LARGER] [KEEP] [THREADS] [WAIT_MS]: THREADS threads each allocate one block of each
// of 64 sizes up to 1 KiB (LARGER 1: and of nine from 2 to 32 KiB), free them (KEEP 1: keep them)
// and do nothing more; after WAIT_MS all end.
//
// Stands for: servers with hundreds of threads of which few are busy; memory that allocators cache
// for each thread is then wasted. Time is not compared here. Printed:
//   rss_kib_per_thread      the memory of each idle thread, compared with the same number of
//   threads that have allocated nothing rss_after_exit_percent  resident size once all have ended
//   (and WAIT_MS later), in percent of that before they began
// Stacks do not count: the program maps them, with all of their pages, and unmaps them when the
// threads have ended, in the phase without allocations just as in the one with them.
#include <pthread.h>
#include <sys/mman.h>

#include <latch>
#include <vector>

#include "workload.h"

namespace {

constexpr size_t kStackBytes = 64 << 10;
constexpr int kSmall = 64;
constexpr size_t kLarger[] = {2 << 10,  3 << 10,  4 << 10,  6 << 10, 8 << 10,
                              12 << 10, 16 << 10, 24 << 10, 32 << 10};

struct Phase {
  int sizes;  // 0: allocate nothing
  bool keep;
  std::latch idle;
  std::latch end;
};

size_t bytes_of(int size) { return size < kSmall ? 16 * (size + 1) : kLarger[size - kSmall]; }

void* run(void* argument) {
  Phase& phase = *static_cast<Phase*>(argument);
  char* blocks[kSmall + std::size(kLarger)];
  for (int i = 0; i < phase.sizes; ++i) blocks[i] = workload::allocate_touched(bytes_of(i));
  if (!phase.keep)
    for (int i = 0; i < phase.sizes; ++i) free(blocks[i]);
  phase.idle.count_down();
  phase.end.wait();
  if (phase.keep)
    for (int i = 0; i < phase.sizes; ++i) free(blocks[i]);
  return nullptr;
}

// The resident size while all threads of a phase are idle, in KiB.
double resident_when_idle(long threads, int sizes, bool keep, long wait_ms) {
  char* stacks = static_cast<char*>(mmap(nullptr, threads * kStackBytes, PROT_READ | PROT_WRITE,
                                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0));
  if (stacks == MAP_FAILED) exit(1);
  Phase phase{sizes, keep, std::latch(threads), std::latch(1)};
  std::vector<pthread_t> running(threads);
  for (long i = 0; i < threads; ++i) {
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstack(&attributes, stacks + i * kStackBytes, kStackBytes);
    if (pthread_create(&running[i], &attributes, run, &phase) != 0) exit(1);
    pthread_attr_destroy(&attributes);
  }
  phase.idle.wait();
  workload::wait_ms(wait_ms);
  const double resident = workload::resident_kib();
  phase.end.count_down();
  for (pthread_t thread : running) pthread_join(thread, nullptr);
  munmap(stacks, threads * kStackBytes);
  return resident;
}

}  // namespace

int main(int count, char** arguments) {
  const int sizes =
      workload::argument(count, arguments, 1, 0) ? kSmall + std::size(kLarger) : kSmall;
  const bool keep = workload::argument(count, arguments, 2, 0) != 0;
  const long threads = workload::argument(count, arguments, 3, 1000);
  const long wait_ms = workload::argument(count, arguments, 4, 2000);
  const double without = resident_when_idle(threads, 0, keep, 0);
  const double before = workload::resident_kib();
  const double with = resident_when_idle(threads, sizes, keep, wait_ms);
  workload::wait_ms(wait_ms);
  const double after = workload::resident_kib();
  workload::metric("rss_kib_per_thread", (with - without) / threads);
  workload::metric("rss_after_exit_percent", after / before * 100);
  workload::report();
}

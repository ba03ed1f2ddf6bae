// Executes its arguments, one after the other: for the effects of allocator settings on memory.
//
//   keep:N, free   words.h
//   sleep:MS       until this much time has passed, whatever signals arrive
//   resident       prints the resident MiB
//   blocks:N       prints the number of blocks of 1 MiB it gets, at most N
//   caches:N       N threads that each free 8 blocks of 256 KiB and stay; prints "ready", then
//                  waits until standard input ends
#include <pthread.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "words.h"

static double now() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

extern "C" __attribute__((noinline)) void sleep_for(double seconds) {
  for (double end = now() + seconds; now() < end;) usleep(10000);
}

static unsigned long resident_mib() {
  unsigned long all = 0, resident = 0;
  FILE* file = fopen("/proc/self/statm", "r");
  if (file == nullptr || fscanf(file, "%lu %lu", &all, &resident) != 2) exit(1);
  fclose(file);
  return resident * static_cast<unsigned long>(sysconf(_SC_PAGESIZE)) >> 20;
}

static size_t blocks(size_t most) {
  size_t got = 0;
  for (; got < most; got++) {
    void* block = malloc(1 << 20);
    if (block == nullptr) break;
    memset(block, 1, 1 << 20);
  }
  return got;
}

static pthread_barrier_t freed;
static void* free_and_stay(void*) {
  void* own[8];
  for (void*& block : own) block = memset(malloc(256 << 10), 1, 256 << 10);
  for (void* block : own) free(block);
  pthread_barrier_wait(&freed);
  for (;;) pause();
}

static void caches(unsigned threads) {
  pthread_barrier_init(&freed, nullptr, threads + 1);
  for (unsigned i = 0; i < threads; i++) {
    pthread_t thread;
    if (pthread_create(&thread, nullptr, free_and_stay, nullptr) != 0) exit(1);
  }
  pthread_barrier_wait(&freed);
  puts("ready");
  fflush(stdout);
  while (getchar() != EOF) {
  }
}

int main(int, char** argv) {
  return do_words(argv, [](std::string_view word, size_t number) {
    if (word == "sleep") sleep_for(static_cast<double>(number) / 1000);
    if (word == "resident") printf("%lu\n", resident_mib());
    if (word == "blocks") printf("%zu\n", blocks(number));
    if (word == "caches") caches(static_cast<unsigned>(number));
    return 0;
  });
}

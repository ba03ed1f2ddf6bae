// 2,000 threads, 50 at a time. Each allocates blocks of many sizes, swaps blocks with the others
// through a table, and leaves a thread-local object with a destructor that frees and allocates once
// more, when the thread's heap may be partly torn down. Memory of ended threads must be reused: the
// process may not grow with the number of threads ever started.
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr int kThreads = 2000, kAtOnce = 50, kSlots = 512;

struct Block {
  size_t bytes;
  unsigned char fill;
};
std::atomic<Block*> exchange[kSlots];
std::atomic<long> made, freed;

Block* make(unsigned& seed) {
  seed = seed * 1664525 + 1013904223;
  const size_t kinds[] = {16, 100, 1000, 5000, 20000, 70000};
  const size_t bytes = sizeof(Block) + (seed >> 8) % kinds[(seed >> 28) % 6];
  Block* block = static_cast<Block*>(malloc(bytes));
  *block = {bytes, static_cast<unsigned char>(seed >> 16)};
  memset(block + 1, block->fill, bytes - sizeof(Block));
  ++made;
  return block;
}

void check_and_free(Block* block) {
  if (!block) return;
  const unsigned char* body = reinterpret_cast<unsigned char*>(block + 1);
  for (size_t i = 0; i + sizeof(Block) < block->bytes; ++i) {
    if (body[i] != block->fill) {
      fprintf(stderr, "a block of %zu bytes is damaged at %zu\n", block->bytes, i);
      abort();
    }
  }
  free(block);
  ++freed;
}

struct Leaver {
  std::vector<Block*> kept;
  unsigned seed = 0;
  ~Leaver() {
    for (Block* block : kept) check_and_free(block);
    check_and_free(make(seed));
    std::string last(300, 'x');
    if (last[299] != 'x') abort();
  }
};
thread_local Leaver leaver;

void work(unsigned seed) {
  leaver.seed = seed;
  for (int i = 0; i < 400; ++i) {
    Block* block = make(seed);
    if (i % 20 == 0)
      leaver.kept.push_back(block);
    else
      check_and_free(exchange[(seed >> 18) % kSlots].exchange(block));
  }
}

long resident_mb() {
  long pages = 0, ignored = 0;
  FILE* file = fopen("/proc/self/statm", "r");
  if (!file || fscanf(file, "%ld %ld", &ignored, &pages) != 2) abort();
  fclose(file);
  return pages * sysconf(_SC_PAGESIZE) >> 20;
}

}  // namespace

int main() {
  long after_first = 0;
  for (int done = 0; done < kThreads; done += kAtOnce) {
    std::vector<std::thread> threads;
    for (int i = 0; i < kAtOnce; ++i) threads.emplace_back(work, 7919u * (done + i + 1));
    for (auto& thread : threads) thread.join();
    if (done == 4 * kAtOnce) after_first = resident_mb();
  }
  const long at_end = resident_mb();
  for (auto& slot : exchange) check_and_free(slot.exchange(nullptr));
  // 512 slots of at most 70 KB are at most 36 MB; 64 MB more than after the first 250 threads would
  // be a leak.
  const bool bounded = at_end < after_first + 64;
  if (!bounded)
    fprintf(stderr, "resident: %ld MB after 250 threads, %ld MB at the end\n", after_first, at_end);
  printf("%d threads, blocks %s, memory %s\n", kThreads,
         made == freed ? "all accounted for" : "lost", bounded ? "bounded" : "growing");
}

// A thread ends while another frees its blocks; the memory must be reused: otherwise it would grow
// with each of many rounds.
#include <pthread.h>

#include <atomic>

#include "expect.h"

namespace {

constexpr int kRounds = 600, kBlocks = 300;
void* blocks[kBlocks];
size_t sizes[kBlocks];
std::atomic<int> ready{0};

void* producer(void* argument) {
  unsigned long state = reinterpret_cast<unsigned long>(argument);
  for (int i = 0; i < kBlocks; i++) {
    sizes[i] = 1 + random_below(&state, i % 16 == 0 ? 50000 : 600);
    blocks[i] = marked(malloc(sizes[i]), sizes[i]);
    ready.store(i + 1, std::memory_order_release);
  }
  return nullptr;  // and ends while the consumer frees the last blocks
}

size_t virtual_bytes() {
  unsigned long all = 0;
  FILE* file = fopen("/proc/self/statm", "r");
  EXPECT(file != nullptr && fscanf(file, "%lu", &all) == 1);
  fclose(file);
  return all * static_cast<size_t>(sysconf(_SC_PAGESIZE));
}

}  // namespace

int main() {
  expect_subject();
  size_t after_a_while = 0;
  for (int round = 0; round < kRounds; round++) {
    ready = 0;
    pthread_t thread;
    EXPECT(pthread_create(&thread, nullptr, producer,
                          reinterpret_cast<void*>(static_cast<size_t>(round) + 1)) == 0);
    for (int i = 0; i < kBlocks; i++) {
      while (ready.load(std::memory_order_acquire) <= i) sched_yield();
      free_marked(blocks[i], sizes[i]);
    }
    pthread_join(thread, nullptr);
    if (round == 200) after_a_while = virtual_bytes();
  }
  EXPECT(virtual_bytes() < after_a_while + (size_t{128} << 20));
  return ok();
}

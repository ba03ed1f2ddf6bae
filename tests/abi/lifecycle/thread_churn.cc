// 5,000 short threads, up to 500 alive at once, that pass blocks to each other; at the end little
// memory may remain: threads that ended must not keep memory.
#include <pthread.h>

#include <atomic>

#include "expect.h"

namespace {

constexpr int kThreads = 5000, kAlive = 500, kSlots = 2048;
std::atomic<size_t*> slots[kSlots];

void put(size_t slot, size_t* block) {
  size_t* old = slots[slot].exchange(block);
  if (old == nullptr) return;
  EXPECT(reinterpret_cast<unsigned char*>(old)[*old - 1] == 0x2f);
  free(old);
}

void* short_life(void* argument) {
  unsigned long state = reinterpret_cast<unsigned long>(argument);
  for (int i = 0; i < 40; i++) {
    size_t size = sizeof(size_t) + 1 + random_size(&state) % 20000;
    auto block = static_cast<size_t*>(malloc(size));
    EXPECT(block != nullptr);
    reinterpret_cast<unsigned char*>(block)[size - 1] = 0x2f;
    *block = size;
    put(random_below(&state, kSlots), block);
  }
  return nullptr;
}

size_t resident_bytes() {
  unsigned long all = 0, resident = 0;
  FILE* file = fopen("/proc/self/statm", "r");
  EXPECT(file != nullptr && fscanf(file, "%lu %lu", &all, &resident) == 2);
  fclose(file);
  return resident * static_cast<size_t>(sysconf(_SC_PAGESIZE));
}

}  // namespace

int main() {
  expect_subject();
  static pthread_t alive[kAlive];
  pthread_attr_t small;
  pthread_attr_init(&small);
  pthread_attr_setstacksize(&small, 65536);
  size_t middle = 0;
  for (int i = 0; i < kThreads; i++) {
    pthread_t* place = &alive[i % kAlive];
    if (i >= kAlive) pthread_join(*place, nullptr);
    EXPECT(pthread_create(place, &small, short_life,
                          reinterpret_cast<void*>(static_cast<size_t>(i) + 1)) == 0);
    if (i == kThreads / 2) middle = resident_bytes();
  }
  for (pthread_t thread : alive) pthread_join(thread, nullptr);
  // 2,048 slots of at most 20 KB are 40 MB at the worst, some 13 MB on average; the second half
  // must not add to the first.
  size_t at_end = resident_bytes();
  EXPECT(at_end < (size_t{160} << 20));
  EXPECT(at_end < middle + (size_t{48} << 20));
  for (auto& slot : slots) free(slot.exchange(nullptr));
  return ok();
}

// Allocates by a plan and reports the truth about it: for tests that compare the figures of the
// commands.
//
//   planned STEP...   a step is place,size,count,written,keep[,thread]
//
// Each step has its place (a function planned_0 to planned_7) allocate `count` blocks of `size`
// bytes and write the first `written` bytes of each (-1: all), then frees all but each `keep`-th
// (0: all). A step "thread" does this in a separate thread, which stays. Then "ready" is printed,
// and the truth with each line that is read, up to "done": of each place, and of the other live
// blocks, the number of blocks, the bytes that were requested and allocated, and the bytes on
// resident pages. Its own records are in memory that malloc does not know.
#include <malloc.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "seemalloc/seemalloc.h"

// The program is started with the library preloaded.
#pragma weak seemalloc_for_each_block

namespace {

constexpr int kPlaces = 8;
constexpr size_t kMax = 8 << 20;

struct Step {
  int place;
  size_t size, count;
  long written;
  size_t keep;
};

struct Sums {
  size_t blocks, requested, allocated, resident;
};

struct Kept {
  char* block;
  unsigned size;
  int place;
};

Kept* kept;
size_t kept_count;
void** step_blocks;
size_t page_bytes;

// The bytes of the range that are on resident pages.
size_t resident(const char* block, size_t bytes) {
  size_t sum = 0;
  const char *end = block + bytes, *at = block;
  static unsigned char there[1 << 16];
  while (at < end) {
    char* page = reinterpret_cast<char*>(reinterpret_cast<size_t>(at) / page_bytes * page_bytes);
    size_t pages = (static_cast<size_t>(end - page) + page_bytes - 1) / page_bytes;
    if (pages > sizeof(there)) pages = sizeof(there);
    if (mincore(page, pages * page_bytes, there) != 0) abort();
    for (size_t i = 0; i < pages; i++, page += page_bytes) {
      const char* next = page + page_bytes < end ? page + page_bytes : end;
      if (there[i] & 1) sum += static_cast<size_t>(next - at);
      at = next;
    }
  }
  return sum;
}

using Place = void (*)(const Step& step);

#define PLACE(n)                                                                         \
  extern "C" __attribute__((noinline)) void planned_##n(const Step& step) {              \
    for (size_t i = 0; i < step.count; i++) {                                            \
      char* block = static_cast<char*>(malloc(step.size));                               \
      if (block == nullptr) abort();                                                     \
      size_t written = step.written < 0 ? step.size : static_cast<size_t>(step.written); \
      memset(block, 1, written);                                                         \
      asm volatile("" ::"r"(block) : "memory");                                          \
      step_blocks[i] = block;                                                            \
    }                                                                                    \
  }
PLACE(0)
PLACE(1)
PLACE(2)
PLACE(3)
PLACE(4)
PLACE(5)
PLACE(6)
PLACE(7)
constexpr Place kFunctions[kPlaces] = {planned_0, planned_1, planned_2, planned_3,
                                       planned_4, planned_5, planned_6, planned_7};

void take(const Step& step) {
  kFunctions[step.place](step);
  for (size_t i = 0; i < step.count; i++) {
    if (step.keep != 0 && i % step.keep == 0) {
      kept[kept_count++] = {static_cast<char*>(step_blocks[i]), static_cast<unsigned>(step.size),
                            step.place};
    } else {
      free(step_blocks[i]);
    }
  }
}

pthread_barrier_t taken;
void* take_in_thread(void* step) {
  take(*static_cast<Step*>(step));
  pthread_barrier_wait(&taken);
  for (;;) pause();
}

void* map(size_t bytes) {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) abort();
  return memory;
}

// Ignores the size that the walk over all blocks reports: that is one of the library's figures.
void add_block(void* sums, void* block, size_t) {
  Sums& s = *static_cast<Sums*>(sums);
  size_t bytes = malloc_usable_size(block);
  s.blocks++;
  s.allocated += bytes;
  s.resident += resident(static_cast<char*>(block), bytes);
}

void say(const char* what, const Sums& s) {
  char line[200];
  int length = snprintf(line, sizeof(line), "%s %zu %zu %zu %zu\n", what, s.blocks, s.requested,
                        s.allocated, s.resident);
  if (write(1, line, static_cast<size_t>(length)) != length) abort();
}

}  // namespace

namespace {
void tell() {
  Sums places[kPlaces] = {}, others = {};
  for (size_t i = 0; i < kept_count; i++) {
    Sums& place = places[kept[i].place];
    place.requested += kept[i].size;
    add_block(&place, kept[i].block, 0);
  }
  // The other live blocks: those of the start-up, and of threads.
  if (seemalloc_for_each_block(add_block, &others) != 0) abort();
  for (int i = 0; i < kPlaces; i++) {
    char name[16];
    snprintf(name, sizeof(name), "planned_%d", i);
    if (places[i].blocks != 0) say(name, places[i]);
    others.blocks -= places[i].blocks;
    others.allocated -= places[i].allocated;
    others.resident -= places[i].resident;
  }
  say("others", others);
}

void say(const char* text) {
  if (write(1, text, strlen(text)) < 0) abort();
}
}  // namespace

int main(int argc, char** argv) {
  page_bytes = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  kept = static_cast<Kept*>(map(kMax * sizeof(Kept)));
  step_blocks = static_cast<void**>(map(kMax * sizeof(void*)));
  static Step steps[64];
  pthread_barrier_init(&taken, nullptr, 2);
  for (int i = 1; i < argc && i <= 64; i++) {
    Step& step = steps[i - 1];
    char thread[8] = "";
    if (sscanf(argv[i], "%d,%zu,%zu,%ld,%zu,%7s", &step.place, &step.size, &step.count,
               &step.written, &step.keep, thread) < 5)
      abort();
    if (thread[0] == 0) {
      take(step);
      continue;
    }
    pthread_t started;
    if (pthread_create(&started, nullptr, take_in_thread, &step) != 0) abort();
    pthread_barrier_wait(&taken);
  }
  say("ready\n");
  char word[16];
  while (read(0, word, sizeof(word)) > 0) {
    tell();
    say("done\n");
  }
}

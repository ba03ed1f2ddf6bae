// Bursts of memory, each freed before the next one and each of another kind: the next burst can
// reuse the memory of the last one only through the OS.
//
//   memory_cgroup MIB CYCLES [elsewhere]
//   memory_cgroup MIB idle
//
// In each cycle small blocks (two threads), huge buffers, then large ones, MIB of each; with
// `elsewhere` also a mapping of the program's own. At most MIB of them are live at a time. Every
// byte is written. The last block of each thread outlives the burst. `idle`: after one burst of
// small blocks it makes no more calls of malloc and free, and runs until it is ended.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <thread>
#include <vector>

namespace {

constexpr size_t MiB = size_t{1} << 20;

void* written(size_t bytes) {
  void* p = malloc(bytes);
  if (p == nullptr) {
    puts("no memory");
    exit(3);
  }
  memset(p, 1, bytes);
  return p;
}

void free_all(std::vector<void*>& blocks) {
  for (void* p : blocks) free(p);
  blocks.clear();
}

// Sizes between the two limits, one after the other.
std::vector<void*> fill(size_t bytes, size_t smallest, size_t largest) {
  std::vector<void*> blocks;
  size_t each = smallest;
  for (size_t sum = 0; sum + each <= bytes; sum += each) {
    each = smallest + (each * 7 + 13) % (largest - smallest + 1);
    blocks.push_back(written(each));
  }
  return blocks;
}

void small_burst(size_t bytes) {
  std::vector<void*> kept[2];
  std::vector<void*> blocks[2];
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; i++) {
    threads.emplace_back([&, i] {
      blocks[i] = fill(bytes / 2, 16, 1000);
      kept[i].push_back(written(100));
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int i = 0; i < 2; i++) {
    free_all(blocks[i]);
    // Never freed: a thread's last block is at the end of its memory.
    static std::vector<void*> pinned;
    pinned.push_back(kept[i][0]);
  }
}

void pause_ms(long ms) {
  timespec time{ms / 1000, ms % 1000 * 1000000};
  nanosleep(&time, nullptr);
}

// Memory that malloc does not see, a tenth of a gigabyte per second.
void elsewhere(size_t bytes) {
  char* p = static_cast<char*>(
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  if (p == MAP_FAILED) exit(3);
  for (size_t at = 0; at < bytes; at += MiB) {
    memset(p + at, 1, MiB);
    pause_ms(10);
  }
  munmap(p, bytes);
}

void burst(size_t bytes, size_t smallest, size_t largest) {
  std::vector<void*> blocks = fill(bytes, smallest, largest);
  free_all(blocks);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  size_t bytes = strtoul(argv[1], nullptr, 10) * MiB;
  if (strcmp(argv[2], "idle") == 0) {
    small_burst(bytes);
    dprintf(1, "idle\n");
    for (;;) pause();
  }
  int cycles = atoi(argv[2]);
  for (int i = 0; i < cycles; i++) {
    small_burst(bytes);
    burst(bytes, 2 * MiB, 4 * MiB);
    burst(bytes, 40 * 1024, 900 * 1024);
    if (argc > 3) elsewhere(bytes / MiB * MiB);
  }
  printf("%d cycles of %zu MiB\n", cycles, bytes / MiB);
}

// A program with known blocks: how long they live, which spans they leave half empty, and which
// system calls it causes. Executes one step for each letter that it reads, and answers with the
// letter.
#include <pthread.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

namespace {

std::vector<void*> kept, waiting;

void* filled(size_t bytes) {
  void* block = malloc(bytes);
  memset(block, 1, bytes);
  return block;
}

__attribute__((noinline)) void temporary() {
  for (int i = 0; i < 1000; i++) {
    free(filled(200));
    asm volatile("" ::: "memory");
  }
}

__attribute__((noinline)) void handed_over() {
  std::vector<void*> blocks;
  for (int i = 0; i < 300; i++) blocks.push_back(filled(3000));
  std::thread([&] {
    for (void* block : blocks) free(block);
  }).join();
}

__attribute__((noinline)) void waits_a_while() {
  for (int i = 0; i < 50; i++) waiting.push_back(filled(6000));
}

// Of 40,000 blocks every 40th stays.
__attribute__((noinline)) void pins_spans() {
  std::vector<void*> blocks;
  for (int i = 0; i < 40000; i++) blocks.push_back(filled(1000));
  for (size_t i = 0; i < blocks.size(); i++)
    i % 40 == 0 ? kept.push_back(blocks[i]) : free(blocks[i]);
}

__attribute__((noinline)) void keeps_large() {
  for (int i = 0; i < 10; i++) kept.push_back(filled(300000));
  kept.push_back(filled(size_t{64} << 20));
}

__attribute__((noinline)) void holds(void** blocks, int count) {
  for (int i = 0; i < count; i++) blocks[i] = filled(4096);
}

// Three threads that allocate and end.
void** by_threads;
void named_threads() {
  by_threads = static_cast<void**>(malloc(1000 * sizeof(void*)));
  int done = 0;
  auto run = [&](const char* name, int count) {
    std::thread([&] {
      pthread_setname_np(pthread_self(), name);
      holds(by_threads + done, count);
    }).join();
    done += count;
  };
  run("reader", 400);
  run("writer 1", 200);
  run("writer 2", 100);
}

// The two call each other recursively; the innermost ping holds 5000 bytes, its callee 300,000.
void* pong(int);
__attribute__((noinline)) void* ping(int depth) {
  void* below = depth > 0 ? pong(depth - 1) : filled(300000);
  if (depth == 0) kept.push_back(malloc(5000));
  asm volatile("" ::: "memory");
  return below;
}
__attribute__((noinline)) void* pong(int depth) {
  void* below = ping(depth);
  asm volatile("" ::: "memory");
  return below;
}

__attribute__((noinline)) void takes_huge() {
  for (int i = 0; i < 5; i++) {
    free(filled(size_t{200} << 20));
    asm volatile("" ::: "memory");
  }
}

}  // namespace

int main() {
  puts("ready");
  fflush(stdout);
  for (char step; read(0, &step, 1) == 1;) {
    switch (step) {
      case 'l':
        waits_a_while();
        temporary();
        handed_over();
        std::this_thread::sleep_for(std::chrono::milliseconds(300));
        for (void* block : waiting) free(block);
        waiting.clear();
        break;
      case 'p': pins_spans(); break;
      case 'g': keeps_large(); break;
      case 'h': takes_huge(); break;
      case 't': named_threads(); break;
      case 'r': kept.push_back(ping(4)); break;
      default: continue;
    }
    printf("%c\n", step);
    fflush(stdout);
  }
}

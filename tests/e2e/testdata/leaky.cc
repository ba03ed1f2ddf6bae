// Allocates known amounts in functions with known names, prints "ready", and then obeys commands on
// standard input.
//
// All sizes are class sizes, so that the exact sums are those of the allocator.
#include <pthread.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

// Keeps the compiler from removing an allocation.
static void touch(void* block) {
  *static_cast<volatile char*>(block) = 1;
  asm volatile("" ::"r"(block) : "memory");
}

static void** kept;  // its own memory comes from mmap by way of one large block
static size_t count;

static void keep(void* block) { kept[count++] = block; }

#define KNOWN extern "C" __attribute__((noinline)) void

KNOWN leak_small(int n) {
  for (int i = 0; i < n; i++) {
    void* block = malloc(64);
    touch(block);
    keep(block);
  }
}

KNOWN leak_medium(int n) {
  for (int i = 0; i < n; i++) {
    void* block = calloc(1, 1024);
    touch(block);
    keep(block);
  }
}

KNOWN leak_large(int n) {
  for (int i = 0; i < n; i++) {
    char* block = new char[128 << 10];
    memset(block, 1, 128 << 10);
    keep(block);
  }
}

KNOWN churn(int n) {
  for (int i = 0; i < n; i++) {
    void* block = malloc(512);
    touch(block);
    free(block);
  }
}

namespace shop {

template <class T>
struct Basket {
  __attribute__((always_inline)) T* put() {
    T* block = static_cast<T*>(malloc(sizeof(T)));
    touch(block);
    return block;
  }
};

struct Item {
  char text[256];
};

__attribute__((noinline)) void fill(int n) {
  Basket<Item> basket;
  for (int i = 0; i < n; i++) keep(basket.put());
}

}  // namespace shop

extern "C" __attribute__((noinline)) void* in_thread(void* n) {
  leak_medium(*static_cast<int*>(n));
  return nullptr;
}

int main(int argc, char** argv) {
  const int scale = argc > 1 ? atoi(argv[1]) : 100;
  if (scale == 0) {  // nearly no heap at all
    puts("ready");
    fflush(stdout);
    return getchar() == EOF;
  }
  kept = static_cast<void**>(malloc((size_t{4} << 20) * sizeof(void*)));
  leak_small(scale * 2000);
  leak_medium(scale * 100);
  leak_large(scale);
  shop::fill(scale * 200);
  churn(scale * 1000);
  int in_threads = scale * 50;
  pthread_t thread;
  pthread_create(&thread, nullptr, in_thread, &in_threads);
  pthread_join(thread, nullptr);
  puts("ready");
  fflush(stdout);
  for (int command; (command = getchar()) != EOF;) {
    if (command == 'm') leak_large(scale);
    if (command == 'f') {
      while (count > 0) free(kept[--count]);
    }
    if (command == '\n') {
      puts("done");
      fflush(stdout);
    }
  }
}

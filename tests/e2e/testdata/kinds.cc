// Allocates in functions with known names for each kind of profile, prints "ready", and then obeys
// commands.
//
// All sizes except those of short_lived are class sizes, so that the exact sums are those of the
// allocator.
#include <pthread.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

// Keeps the compiler from removing an allocation.
static void touch(void* block) {
  *static_cast<volatile char*>(block) = 1;
  asm volatile("" ::"r"(block) : "memory");
}

#define KNOWN extern "C" __attribute__((noinline)) void

static void* kept[1 << 20];
static int count;

// A macro, not a function: the profile must show malloc's caller.
#define MADE(bytes)              \
  ({                             \
    void* fresh = malloc(bytes); \
    touch(fresh);                \
    fresh;                       \
  })

KNOWN held(int n) {
  for (int i = 0; i < n; i++) kept[count++] = MADE(1024);
}

// The high-water mark is in this function.
KNOWN spike(int n) {
  int before = count;
  for (int i = 0; i < n; i++) kept[count++] = MADE(4096);
  while (count > before) free(kept[--count]);
}

KNOWN short_lived(int n) {
  for (int i = 0; i < n; i++) free(MADE(100));  // 112
}

KNOWN long_lived(int n) {
  int before = count;
  for (int i = 0; i < n; i++) kept[count++] = MADE(256);
  usleep(200000);
  while (count > before) free(kept[--count]);
}

static void* passed[1000];
static void* free_passed(void* n) {
  for (int i = 0; i < *static_cast<int*>(n); i++) free(passed[i]);
  return nullptr;
}

KNOWN passed_on(int n) {
  for (int i = 0; i < n; i++) passed[i] = MADE(512);
  pthread_t thread;
  pthread_create(&thread, nullptr, free_passed, &n);
  pthread_join(thread, nullptr);
}

KNOWN copied(int n) {
  for (int i = 0; i < n; i++) {
    void* block = MADE(32);
    block = realloc(block, 768);
    touch(block);
    free(block);
  }
}

KNOWN after_mark(int n) {
  for (int i = 0; i < n; i++) kept[count++] = MADE(2048);
}

int main() {
  held(1000);
  spike(1000);
  short_lived(1000);
  long_lived(100);
  passed_on(100);
  copied(100);
  puts("ready");
  fflush(stdout);
  for (int command; (command = getchar()) != EOF;) {
    if (command == 'm') after_mark(100);
    if (command == 'f') {
      while (count > 0) free(kept[--count]);
    }
    if (command == '\n') {
      puts("done");
      fflush(stdout);
    }
  }
}

// Common beginning and end of the programs of lifecycle/. C and C++.
//
// A program checks as it runs (EXPECT, which ends it on failure), calls ok() at its end and prints
// nothing else; cannot() reports that this machine does not allow the test. Built with _GNU_SOURCE.
// expect_subject() fails when malloc is not that of the allocator under test.
#pragma once

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EXPECT(condition)                                                                          \
  do {                                                                                             \
    if (!(condition)) {                                                                            \
      dprintf(2, "%s:%d: expected %s (errno %d, pid %d)\n", __FILE__, __LINE__, #condition, errno, \
              (int)getpid());                                                                      \
      _exit(1);                                                                                    \
    }                                                                                              \
  } while (0)

static inline int ok(void) {
  puts("ok");
  return 0;
}

static inline void cannot(const char* why) {
  printf("skipped: %s\n", why);
  exit(77);
}

static inline void expect_subject(void) {
  const char* expected = getenv("EXPECT_SEEMALLOC");
  if (expected == NULL || *expected == 0 || strcmp(expected, "static") == 0) return;
  Dl_info info;
  EXPECT(dladdr(dlsym(RTLD_DEFAULT, "malloc"), &info) != 0);
  const char* slash = strrchr(info.dli_fname, '/');
  EXPECT(strcmp(slash == NULL ? info.dli_fname : slash + 1, expected) == 0);
}

// A program whose first argument chooses what it does: runs that one of an array of ways. Returns
// false if there is no such way.
struct Way {
  const char* name;
  void (*go)(void);
};
static inline int run_way_of(const struct Way* ways, size_t count, const char* name) {
  for (size_t i = 0; i < count; i++) {
    if (strcmp(name, ways[i].name) != 0) continue;
    ways[i].go();
    return 1;
  }
  return 0;
}
#define RUN_WAY(ways, name) run_way_of(ways, sizeof(ways) / sizeof((ways)[0]), name)

// Fills a block with bytes that depend on its address and size, and checks them later.
static inline unsigned char mark_of(const void* block, size_t size) {
  return (unsigned char)(((size_t)block >> 4) * 31 + size * 7 + 1);
}
static inline void* marked(void* block, size_t size) {
  EXPECT(block != NULL);
  memset(block, mark_of(block, size), size);
  return block;
}
static inline void expect_marked(const void* block, size_t size) {
  const unsigned char* bytes = (const unsigned char*)block;
  unsigned char mark = mark_of(block, size);
  for (size_t i = 0; i < size; i++) EXPECT(bytes[i] == mark);
}
static inline void free_marked(void* block, size_t size) {
  expect_marked(block, size);
  free(block);
}

// A small random number generator; each thread has its own state.
static inline unsigned random_below(unsigned long* state, unsigned n) {
  *state = *state * 6364136223846793005ul + 1442695040888963407ul;
  return (unsigned)(*state >> 33) % n;
}
// Mostly small sizes, occasionally large ones: 1 B to 1 MiB.
static inline size_t random_size(unsigned long* state) {
  unsigned kind = random_below(state, 100);
  if (kind < 70) return 1 + random_below(state, 512);
  if (kind < 95) return 1 + random_below(state, 16384);
  if (kind < 99) return 1 + random_below(state, 131072);
  return 1 + random_below(state, 1048576);
}

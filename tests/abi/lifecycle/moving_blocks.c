// Large blocks grow by moving while other threads map and unmap memory at the addresses that they
// leave.
#include <pthread.h>
#include <time.h>

#include "expect.h"

enum { kMiB = 1 << 20 };

static int time_is_up(void) {
  static struct timespec began;
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  if (began.tv_sec == 0) began = now;
  return now.tv_sec - began.tv_sec >= 3;
}

static void* grow(void* unused) {
  while (!time_is_up()) {
    char* block = NULL;
    for (int i = 0; i < 12; i++) {
      size_t size = (size_t)(2 + i) * kMiB + 8192;
      block = realloc(block, size);
      EXPECT(block != NULL);
      EXPECT(i == 0 || block[0] == (char)(i - 1));
      block[0] = block[size - 1] = (char)i;
    }
    free(block);
  }
  return unused;
}

// Too large to be cached: each block is a mapping of its own, created and unmapped.
static void* map_and_unmap(void* unused) {
  while (!time_is_up()) {
    char* blocks[8];
    for (int i = 0; i < 8; i++) {
      blocks[i] = malloc((size_t)(67 + i) * kMiB);
      EXPECT(blocks[i] != NULL);
      blocks[i][0] = 1;
    }
    for (int i = 0; i < 8; i++) free(blocks[i]);
  }
  return unused;
}

int main(void) {
  expect_subject();
  time_is_up();
  pthread_t threads[4];
  for (int i = 0; i < 4; i++)
    EXPECT(pthread_create(&threads[i], NULL, i < 2 ? grow : map_and_unmap, NULL) == 0);
  for (int i = 0; i < 4; i++) EXPECT(pthread_join(threads[i], NULL) == 0);
  return ok();
}

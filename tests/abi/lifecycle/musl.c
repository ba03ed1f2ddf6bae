// A static program of musl linked with libseemalloc.a: it links, and several threads use large and
// small blocks.
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <seemalloc/seemalloc.h>

enum { kThreads = 4, kBlocks = 2000 };

static void* work(void* unused) {
  static _Thread_local unsigned char* blocks[kBlocks];
  (void)unused;
  for (int round = 0; round < 5; round++) {
    for (int i = 0; i < kBlocks; i++) {
      size_t bytes = i % 50 == 0 ? 1 + (size_t)i * 3000 % 300000 : 1 + (size_t)i * 37 % 3000;
      free(blocks[i]);
      blocks[i] = i % 3 == 0 ? calloc(1, bytes) : malloc(bytes);
      if (blocks[i] == NULL || (i % 3 == 0 && (blocks[i][0] | blocks[i][bytes - 1]) != 0)) abort();
      memset(blocks[i], i, bytes);
    }
  }
  for (int i = 0; i < kBlocks; i++) free(blocks[i]);
  return NULL;
}

int main(void) {
  if (seemalloc_version() == NULL) return 1;
  pthread_t threads[kThreads];
  for (int i = 0; i < kThreads; i++) {
    if (pthread_create(&threads[i], NULL, work, NULL) != 0) return 1;
  }
  for (int i = 0; i < kThreads; i++) pthread_join(threads[i], NULL);
  return 0;
}

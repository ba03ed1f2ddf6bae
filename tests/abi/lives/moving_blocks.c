// Large blocks grown by moving while other threads map and unmap at the addresses they leave.
#include <pthread.h>

#include "expect.h"

static void* grow_and_free(void* argument) {
  unsigned long state = (unsigned long)argument;
  for (int round = 0; round < 400; round++) {
    size_t size = (size_t)(2 << 20) + (state = state * 6364136223846793005u + 1442695040888963407u) % (1 << 20);
    char* block = malloc(size);
    EXPECT(block != NULL);
    for (int i = 0; i < 5; i++) {
      block[0] = (char)i;
      block[size - 1] = (char)~i;
      size_t larger = size + size / 2;
      block = realloc(block, larger);
      EXPECT(block != NULL);
      EXPECT(block[0] == (char)i && block[size - 1] == (char)~i);
      size = larger;
    }
    free(block);
  }
  return NULL;
}

int main(void) {
  expect_subject();
  pthread_t threads[6];
  for (int i = 0; i < 6; i++) EXPECT(pthread_create(&threads[i], NULL, grow_and_free, (void*)(size_t)(i * 77 + 1)) == 0);
  for (int i = 0; i < 6; i++) EXPECT(pthread_join(threads[i], NULL) == 0);
  return ok();
}

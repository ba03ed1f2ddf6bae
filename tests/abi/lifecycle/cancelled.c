// malloc and free are no cancellation points: a thread that has been cancelled continues to
// allocate, through every path, until it reaches a real cancellation point. A thread cancelled
// inside the allocator would leave a lock held.
#include <malloc.h>
#include <pthread.h>

#include "expect.h"

static volatile int arrived;

static void* thread_main(void* argument) {
  unsigned long state = (unsigned long)argument;
  pthread_cancel(pthread_self());
  void* blocks[100] = {0};
  for (int i = 0; i < 30000; i++) {
    unsigned at = random_below(&state, 100);
    free(blocks[at]);
    blocks[at] = malloc(random_size(&state) * (i % 500 == 0 ? 20 : 1));
    if (i % 10000 == 0) malloc_trim(0);
  }
  for (int i = 0; i < 100; i++) free(realloc(blocks[i], 300000));
  arrived++;
  pthread_testcancel();
  EXPECT(0);
  return NULL;
}

int main(void) {
  expect_subject();
  for (size_t i = 0; i < 8; i++) {
    pthread_t thread;
    void* result = NULL;
    EXPECT(pthread_create(&thread, NULL, thread_main, (void*)(i + 1)) == 0);
    pthread_join(thread, &result);
    EXPECT(result == PTHREAD_CANCELED);
  }
  EXPECT(arrived == 8);
  free_marked(marked(malloc(1000), 1000), 1000);
  return ok();
}

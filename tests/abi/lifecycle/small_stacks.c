// Threads with the smallest possible stack (16 KiB) and fibres (swapcontext) on stacks of 16 KiB,
// through every path of malloc and free. With SEEMALLOC_CONF=sample:1 also through the sampler and
// its unwinder.
#include <limits.h>
#include <pthread.h>
#include <ucontext.h>

#include "expect.h"

static void every_path(void) {
  for (size_t size = 1; size < (8 << 20); size = size * 3 / 2 + 1) {
    void* block = malloc(size);
    EXPECT(block != NULL);
    ((char*)block)[size - 1] = 1;
    block = realloc(block, size + size / 2 + 1);
    EXPECT(block != NULL && ((char*)block)[size - 1] == 1);
    free(block);
    free(calloc(1, size));
    free(aligned_alloc(256, size));
    free(aligned_alloc(65536, size));
  }
  void* many[200];
  for (int i = 0; i < 200; i++) many[i] = malloc(64);
  for (int i = 0; i < 200; i++) free(many[i]);
  EXPECT(malloc((size_t)1 << 50) == NULL);
}

static void* thread_main(void* argument) {
  every_path();
  return argument;
}

static ucontext_t main_context, fibres[8];

static void fibre_main(int number) {
  for (int i = 0; i < 3; i++) {
    every_path();
    swapcontext(&fibres[number], &main_context);
  }
}

int main(void) {
  expect_subject();
  pthread_attr_t smallest;
  pthread_attr_init(&smallest);
  EXPECT(pthread_attr_setstacksize(&smallest, (size_t)sysconf(_SC_THREAD_STACK_MIN)) == 0);
  for (int round = 0; round < 8; round++) {
    pthread_t threads[8];
    for (int i = 0; i < 8; i++)
      EXPECT(pthread_create(&threads[i], &smallest, thread_main, NULL) == 0);
    for (int i = 0; i < 8; i++) pthread_join(threads[i], NULL);
  }
  static char stacks[8][16384] __attribute__((aligned(64)));
  for (int i = 0; i < 8; i++) {
    EXPECT(getcontext(&fibres[i]) == 0);
    fibres[i].uc_stack.ss_sp = stacks[i];
    fibres[i].uc_stack.ss_size = sizeof(stacks[i]);
    fibres[i].uc_link = &main_context;
    makecontext(&fibres[i], (void (*)(void))fibre_main, 1, i);
  }
  for (int round = 0; round < 3; round++) {
    for (int i = 0; i < 8; i++) swapcontext(&main_context, &fibres[i]);
  }
  return ok();
}

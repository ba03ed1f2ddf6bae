// Threads that allocate and free marked blocks until they are stopped.
#pragma once

#include <pthread.h>

#include "expect.h"

enum { kMaxHammers = 8 };
static volatile int hammers_stop;
static int hammers;
static pthread_t hammer_threads[kMaxHammers];

static void* hammer(void* seed) {
  unsigned long state = (unsigned long)seed;
  while (!hammers_stop) {
    size_t size = random_size(&state);
    free_marked(marked(malloc(size), size), size);
  }
  return NULL;
}

static inline void start_hammers(int count) {
  EXPECT(count <= kMaxHammers);
  for (hammers = 0; hammers < count; hammers++) {
    EXPECT(pthread_create(&hammer_threads[hammers], NULL, hammer, (void*)(size_t)(hammers + 1)) ==
           0);
  }
}

static inline void stop_hammers(void) {
  hammers_stop = 1;
  for (int i = 0; i < hammers; i++) EXPECT(pthread_join(hammer_threads[i], NULL) == 0);
}

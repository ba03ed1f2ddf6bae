// A program may use all keys for thread-local values. Its threads start and end before and after
// that; the heaps of ended threads must not accumulate.
#include <limits.h>
#include <pthread.h>

#include "expect.h"

enum { kThreads = 3000, kBytes = 3000 };

static pthread_key_t keys[PTHREAD_KEYS_MAX];
static int destroyed;
static void destroy(void* value) {
  free_marked(value, kBytes);
  free(malloc(100));
  __atomic_fetch_add(&destroyed, 1, __ATOMIC_RELAXED);
}

static long resident_kib(void) {
  FILE* file = fopen("/proc/self/statm", "r");
  long size, pages;
  EXPECT(file != NULL && fscanf(file, "%ld %ld", &size, &pages) == 2);
  fclose(file);
  return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

static void* in_thread(void* key) {
  if (key != NULL)
    EXPECT(pthread_setspecific(*(pthread_key_t*)key, marked(malloc(kBytes), kBytes)) == 0);
  for (size_t size = 16; size < 20000; size += size / 4)
    free_marked(marked(malloc(size), size), size);
  return marked(malloc(kBytes), kBytes);
}

static void run_threads(int count, pthread_key_t* key) {
  for (int i = 0; i < count; i++) {
    pthread_t thread;
    void* block;
    EXPECT(pthread_create(&thread, NULL, in_thread, key) == 0 && pthread_join(thread, &block) == 0);
    free_marked(block, kBytes);
  }
}

int main(void) {
  expect_subject();
  run_threads(10, NULL);
  int count = 0;
  while (count < PTHREAD_KEYS_MAX && pthread_key_create(&keys[count], destroy) == 0) count++;
  EXPECT(count == PTHREAD_KEYS_MAX);
  pthread_key_t one_more;
  EXPECT(pthread_key_create(&one_more, destroy) == EAGAIN);
  run_threads(200, &keys[PTHREAD_KEYS_MAX - 1]);
  EXPECT(destroyed == 200);
  long before = resident_kib();
  run_threads(kThreads, &keys[PTHREAD_KEYS_MAX - 1]);
  EXPECT(destroyed == 200 + kThreads);
  long grown = resident_kib() - before;
  if (grown > 8192) dprintf(2, "grown by %ld KiB\n", grown);
  EXPECT(grown <= 8192);
  EXPECT(pthread_key_delete(keys[5]) == 0 && pthread_key_create(&keys[5], destroy) == 0);
  run_threads(10, &keys[5]);
  EXPECT(destroyed == 210 + kThreads);
  return ok();
}

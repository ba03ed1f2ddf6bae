// The allocator itself is opened late by a program that runs on glibc: RTLD_LOCAL or RTLD_GLOBAL,
// after threads have started and after TLS_COUNT libraries used the surplus of static TLS. It must
// work through its handle, or dlopen must report why not.
//   late_itself LIBSEEMALLOC local|global TLS_COUNT TLS_PATTERN      (tls_user_%d.so)
#include <pthread.h>

#include "expect.h"

static void* (*their_malloc)(size_t);
static void* (*their_calloc)(size_t, size_t);
static void* (*their_realloc)(void*, size_t);
static void (*their_free)(void*);
static pthread_barrier_t opened;

static void* use(void* argument) {
  unsigned long state = (unsigned long)argument;
  void* own = marked(malloc(1000), 1000);  // allocated by glibc before
  pthread_barrier_wait(&opened);
  if (their_malloc == NULL) return own;
  void* blocks[100] = {0};
  size_t sizes[100] = {0};
  for (int i = 0; i < 20000; i++) {
    unsigned at = random_below(&state, 100);
    if (blocks[at] != NULL) {
      expect_marked(blocks[at], sizes[at]);
      their_free(blocks[at]);
    }
    sizes[at] = random_size(&state) % 40000 + 1;
    blocks[at] = marked(their_malloc(sizes[at]), sizes[at]);
    free(malloc(sizes[at]));
  }
  for (int i = 0; i < 100; i++) their_free(blocks[i]);
  char* zero = their_calloc(100, 100);
  EXPECT(zero[0] == 0 && zero[9999] == 0);
  zero = their_realloc(zero, 1 << 20);
  EXPECT(zero != NULL);
  their_free(zero);
  return own;
}

int main(int argc, char** argv) {
  EXPECT(argc == 5);
  int taken = 0;
  for (int i = 0; i < atoi(argv[3]); i++) {
    char path[4096];
    snprintf(path, sizeof(path), argv[4], i);
    taken += dlopen(path, RTLD_NOW | RTLD_LOCAL) != NULL;
  }
  pthread_barrier_init(&opened, NULL, 5);
  pthread_t threads[4];
  for (size_t i = 0; i < 4; i++)
    EXPECT(pthread_create(&threads[i], NULL, use, (void*)(i + 1)) == 0);
  void* library =
      dlopen(argv[1], RTLD_NOW | (strcmp(argv[2], "global") == 0 ? RTLD_GLOBAL : RTLD_LOCAL));
  if (library == NULL) {
    // dlopen may fail only for lack of static TLS, and only when this program used it up.
    const char* reason = dlerror();
    EXPECT(reason != NULL && strstr(reason, "static TLS") != NULL);
    EXPECT(atoi(argv[3]) > 0);
  } else {
    their_calloc = (void* (*)(size_t, size_t))dlsym(library, "calloc");
    their_realloc = (void* (*)(void*, size_t))dlsym(library, "realloc");
    their_free = (void (*)(void*))dlsym(library, "free");
    their_malloc = (void* (*)(size_t))dlsym(library, "malloc");
    EXPECT(their_calloc != NULL && their_realloc != NULL && their_free != NULL &&
           their_malloc != NULL);
    EXPECT(their_malloc != malloc);
  }
  pthread_barrier_wait(&opened);
  for (int i = 0; i < 4; i++) {
    void* own = NULL;
    pthread_join(threads[i], &own);
    free_marked(own, 1000);
  }
  pthread_t after;
  pthread_barrier_init(&opened, NULL, 1);
  EXPECT(pthread_create(&after, NULL, use, (void*)9) == 0);
  void* own = NULL;
  pthread_join(after, &own);
  free_marked(own, 1000);
  if (library != NULL) {
    their_free(their_malloc(100));
    dlclose(library);
    their_free(their_malloc(100));  // it is never unloaded
  }
  return ok();
}

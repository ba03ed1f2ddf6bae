// A C program (no C++ runtime) opens a C++ library late, many times, from threads; blocks cross in
// both directions and outlive dlclose. operator new must be able to throw although libstdc++ was
// loaded after the allocator, and locally.
//   late_dlopen LIBRARY
#include <pthread.h>

#include "expect.h"

static const char* path;

static void* function(void* library, const char* name) {
  void* address = dlsym(library, name);
  EXPECT(address != NULL);
  return address;
}

static void* user(void* argument) {
  unsigned long state = (unsigned long)argument;
  for (int i = 0; i < 30; i++) {
    void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    EXPECT(library != NULL);
    void* (*allocate)(size_t) = (void* (*)(size_t))function(library, "late_allocate");
    void (*release)(void*) = (void (*)(void*))function(library, "late_free");
    void* (*change)(void*, size_t) = (void* (*)(void*, size_t))function(library, "late_realloc");
    void* (*make)(size_t) = (void* (*)(size_t))function(library, "late_new");
    void (*destroy)(void*) = (void (*)(void*))function(library, "late_delete");
    size_t (*thread_state)(void) = (size_t(*)(void))function(library, "late_thread_state");
    EXPECT(thread_state() == 10);
    void* theirs[50];
    size_t sizes[50];
    for (int j = 0; j < 50; j++) {
      sizes[j] = random_size(&state);
      theirs[j] = marked(allocate(sizes[j]), sizes[j]);
      void* ours = malloc(sizes[j]);
      memset(ours, 1, sizes[j]);
      ours = change(ours, sizes[j] + 100);
      EXPECT(*(char*)ours == 1);
      release(ours);
      destroy(make(sizes[j]));
    }
    dlclose(library);
    for (int j = 0; j < 50; j++) free_marked(theirs[j], sizes[j]);
  }
  return NULL;
}

int main(int argc, char** argv) {
  EXPECT(argc == 2);
  path = argv[1];
  expect_subject();
  free(malloc(10));
  pthread_t threads[4];
  for (size_t i = 0; i < 4; i++)
    EXPECT(pthread_create(&threads[i], NULL, user, (void*)(i + 1)) == 0);
  for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
  return ok();
}

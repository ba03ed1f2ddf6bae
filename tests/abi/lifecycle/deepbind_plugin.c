// A plugin of deepbind.c. It calls the family from its own functions, so that each call goes where
// the plugin's symbols are bound, now or at the first call; and through a library that it needs
// (deepbind_needed.c). Its constructor allocates and frees blocks before dlopen returns.
#include <dlfcn.h>
#include <malloc.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "deepbind.h"

void* needed_realloc(void*, size_t);
void needed_free(void*);

static void* plugin_malloc(size_t size) { return malloc(size); }
static void plugin_free(void* block) { free(block); }
static void* plugin_calloc(size_t count, size_t size) { return calloc(count, size); }
static void* plugin_realloc(void* block, size_t size) {
  return size % 2 == 0 ? realloc(block, size) : needed_realloc(block, size);
}
static void* plugin_reallocarray(void* block, size_t count, size_t size) {
  return reallocarray(block, count, size);
}
static void* plugin_memalign(size_t alignment, size_t size) { return memalign(alignment, size); }
static int plugin_posix_memalign(void** out, size_t alignment, size_t size) {
  return posix_memalign(out, alignment, size);
}
static void* plugin_aligned_alloc(size_t alignment, size_t size) {
  return aligned_alloc(alignment, size);
}
static void* plugin_valloc(size_t size) { return valloc(size); }
static size_t plugin_usable_size(void* block) { return malloc_usable_size(block); }
static char* plugin_strdup(const char* text) { return strdup(text); }
static int plugin_asprintf(char** out, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  int result = vasprintf(out, format, arguments);
  va_end(arguments);
  return result;
}

const struct Family* plugin_family(void) {
  static const struct Family family = {
      plugin_malloc,       plugin_free,        plugin_calloc,         plugin_realloc,
      plugin_reallocarray, plugin_memalign,    plugin_posix_memalign, plugin_aligned_alloc,
      plugin_valloc,       plugin_usable_size, plugin_strdup,         plugin_asprintf};
  return &family;
}

// A key of the plugin's C library must not show a value that a thread has under a key of the
// program's C library.
static int ended;
static void end(void* unused) {
  (void)unused;
  ended++;
}
static int first_values_are_null(void) {
  pthread_key_t keys[5];
  int all_null = 1;
  for (int i = 0; i < 5; i++) {
    if (pthread_key_create(&keys[i], end) != 0) return 0;
    all_null &= pthread_getspecific(keys[i]) == NULL;
  }
  for (int i = 0; i < 5; i++) pthread_key_delete(keys[i]);
  return all_null;
}
int plugin_keys_are_new(void) { return first_values_are_null() && ended == 0; }

// Memory that the dynamic linker allocates and the plugin's C library frees, or the reverse: error
// texts, a thread's storage.
static int uses_storage;
static __thread volatile char storage[2000];
static void* fail_often(void* unused) {
  if (!first_values_are_null()) return NULL;
  if (uses_storage) storage[1]++;
  for (int i = 0; i < 20; i++) {
    if (dlopen("no_such_library.so", RTLD_NOW) != NULL || (i % 2 == 0 && dlerror() == NULL))
      return NULL;
    if (dlsym(RTLD_DEFAULT, "no_such_function") != NULL) return NULL;
  }
  return unused;
}
int plugin_uses_linker_memory(int with_storage) {
  int met = 0;
  uses_storage = with_storage;
  for (int i = 0; i < 10; i++) {
    pthread_t thread;
    void* result = NULL;
    if (pthread_create(&thread, NULL, fail_often, &met) != 0) return -1;
    pthread_join(thread, &result);
    met += result != NULL && fail_often(&met) != NULL;
  }
  return ended == 0 ? met : -1;
}

__attribute__((constructor)) static void cross_early(void) {
  void** theirs = dlsym(RTLD_DEFAULT, "block_for_constructor");
  void** ours = dlsym(RTLD_DEFAULT, "block_of_constructor");
  if (theirs == NULL || ours == NULL) return;
  unsigned char* block = needed_realloc(*theirs, 700);
  needed_free(block);
  *theirs = NULL;
  size_t size = 400;
  block = malloc(size);
  // The mark of expect.h, from the address and the size.
  memset(block, (unsigned char)(((size_t)block >> 4) * 31 + size * 7 + 1), size);
  *ours = block;
}

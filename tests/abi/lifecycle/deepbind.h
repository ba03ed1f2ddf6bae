// The functions that a plugin of deepbind.c finds by these names.
#pragma once

#include <stddef.h>

struct Family {
  void* (*malloc)(size_t);
  void (*free)(void*);
  void* (*calloc)(size_t, size_t);
  void* (*realloc)(void*, size_t);
  void* (*reallocarray)(void*, size_t, size_t);
  void* (*memalign)(size_t, size_t);
  int (*posix_memalign)(void**, size_t, size_t);
  void* (*aligned_alloc)(size_t, size_t);
  void* (*valloc)(size_t);
  size_t (*malloc_usable_size)(void*);
  char* (*strdup)(const char*);
  int (*asprintf)(char**, const char*, ...);
};

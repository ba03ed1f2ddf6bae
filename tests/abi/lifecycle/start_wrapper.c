// A tool that wraps a program's start and its allocations, as some profilers of parallel programs
// do: it defines __libc_start_main as well as malloc and its family, and passes each call on to the
// next library.
#include <dlfcn.h>
#include <stddef.h>

static void* next(const char* name) {
  void* found = dlsym(RTLD_NEXT, name);
  if (found == NULL) __builtin_trap();
  return found;
}

size_t wrapper_calls;

void* malloc(size_t size) {
  wrapper_calls++;
  return ((void* (*)(size_t))next("malloc"))(size);
}
void* calloc(size_t count, size_t size) {
  wrapper_calls++;
  return ((void* (*)(size_t, size_t))next("calloc"))(count, size);
}
void* realloc(void* block, size_t size) {
  wrapper_calls++;
  return ((void* (*)(void*, size_t))next("realloc"))(block, size);
}
void free(void* block) {
  wrapper_calls++;
  ((void (*)(void*))next("free"))(block);
}

typedef int Main(int, char**, char**);
int __libc_start_main(Main* program, int count, char** arguments, void (*start)(void),
                      void (*end)(void), void (*end_linker)(void), void* stack) {
  return ((int (*)(Main*, int, char**, void (*)(void), void (*)(void), void (*)(void), void*))next(
      "__libc_start_main"))(program, count, arguments, start, end, end_linker, stack);
}

// Loads two libraries in turns, at the same place where the system does so, allocates in each and unloads it.
//   unload LIBRARY LIBRARY ROUNDS [exit]
#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { kBlocks = 8000, kBytes = 1024 };

static void* place;
static int same = 1;

static void use(const char* library, int blocks) {
  void* handle = dlopen(library, RTLD_NOW);
  if (handle == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    exit(1);
  }
  void (*fill)(size_t, int) = (void (*)(size_t, int))dlsym(handle, "fill");
  if (place == NULL) place = (void*)fill;
  same &= place == (void*)fill;
  fill(kBytes, blocks);
  dlclose(handle);
}

int main(int count, char** arguments) {
  for (int round = 0; round < atoi(arguments[3]); round++) {
    use(arguments[1], kBlocks);
    use(arguments[2], kBlocks / 4);
  }
  printf("ready\n%s\n", same ? "same" : "apart");
  fflush(stdout);
  if (count < 5) pause();
  return 0;
}

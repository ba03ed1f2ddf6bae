// Loads two libraries in turns, at the same addresses where the system does so, allocates in each
// and unloads it; with BURN_MS in the environment it uses the processor for this long in the first,
// and for a third of it in the other.
//   unload LIBRARY LIBRARY ROUNDS [exit]
#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { kBlocks = 8000, kBytes = 1024 };

static void* place;
static int same = 1;

static void use(const char* library, int blocks, long burn_ms) {
  void* handle = dlopen(library, RTLD_NOW);
  if (handle == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    exit(1);
  }
  void (*fill)(size_t, int) = (void (*)(size_t, int))dlsym(handle, "fill");
  if (place == NULL) place = (void*)fill;
  same &= place == (void*)fill;
  fill(kBytes, blocks);
  long (*burn)(long) = (long (*)(long))dlsym(handle, "burn");
  if (burn_ms > 0) burn(burn_ms);
  dlclose(handle);
}

int main(int count, char** arguments) {
  const char* burn = getenv("BURN_MS");
  long burn_ms = burn != NULL ? atol(burn) : 0;
  for (int round = 0; round < atoi(arguments[3]); round++) {
    use(arguments[1], kBlocks, burn_ms);
    use(arguments[2], kBlocks / 4, burn_ms / 3);
  }
  printf("ready\n%s\n", same ? "same" : "apart");
  fflush(stdout);
  if (count < 5) pause();
  return 0;
}

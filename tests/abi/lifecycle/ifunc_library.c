// A library with a function chosen by an ifunc resolver that allocates: malloc runs while the
// dynamic linker relocates.
#include <stdlib.h>
#include <string.h>

void* ifunc_block;

// C++'s new[] and delete[], defined by the allocator or by a C++ runtime: this program has none of
// its own.
extern void* _Znam(size_t bytes) __attribute__((weak));
extern void _ZdaPvm(void* block, size_t bytes) __attribute__((weak));

static int chosen(void) { return 42; }

static int (*resolve(void))(void) {
  char* scratch = malloc(200);
  memset(scratch, 1, 200);
  char* kept = calloc(1, 5000);
  char* large = malloc(1 << 20);
  large[1 << 19] = 1;
  free(large);
  free(scratch);
  if (_Znam != NULL && _ZdaPvm != NULL) {
    _ZdaPvm(memset(_Znam(200), 1, 200), 200);
    _ZdaPvm(_Znam(100000), 100000);
  }
  if (ifunc_block == NULL) {
    ifunc_block = kept;
  } else {
    free(kept);
  }
  return chosen;
}

int ifunc_answer(void) __attribute__((ifunc("resolve")));

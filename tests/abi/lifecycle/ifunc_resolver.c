// Calls malloc in ifunc resolvers: of the program, of a library it links, of a library it opens.
// Linked with -z now.
#include "expect.h"

extern int ifunc_answer(void);
extern void* ifunc_block;

static void* own_block;
static int seven(void) { return 7; }
static int (*resolve(void))(void) {
  own_block = malloc(300);
  free(malloc(100000));
  return seven;
}
static int own_answer(void) __attribute__((ifunc("resolve")));

int main(int argc, char** argv) {
  (void)argc;
  expect_subject();
  EXPECT(own_answer() == 7);
  EXPECT(ifunc_answer() == 42);
  free(own_block);
  // The library's block is zeroed, and realloc preserves it.
  unsigned char* block = ifunc_block;
  EXPECT(block != NULL);
  for (int i = 0; i < 5000; i++) EXPECT(block[i] == 0);
  free(realloc(block, 20000));

  void* library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  EXPECT(library != NULL);
  int (*answer)(void) = (int (*)(void))dlsym(library, "ifunc_answer");
  EXPECT(answer != NULL && answer() == 42);
  return ok();
}

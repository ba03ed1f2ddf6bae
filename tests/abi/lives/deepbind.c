// A library opened with RTLD_DEEPBIND looks in its own libc first: its malloc is glibc's, the program's free is ours.
//   deepbind LIBRARY            its blocks, our free and realloc: passed on to glibc
//   deepbind LIBRARY reverse    our blocks, its free: out of our hands, glibc aborts; here to know when that changes
//   deepbind LIBRARY namespace  the same library in a namespace of its own (dlmopen): no block crosses, nothing breaks
#include "expect.h"

static void* (*their_malloc)(size_t);
static void* (*their_realloc)(void*, size_t);
static void (*their_free)(void*);

int main(int argc, char** argv) {
  EXPECT(argc >= 2);
  const char* mode = argc > 2 ? argv[2] : "";
  expect_subject();
  void* library = strcmp(mode, "namespace") == 0 ? dlmopen(LM_ID_NEWLM, argv[1], RTLD_NOW)
                                                 : dlopen(argv[1], RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
  EXPECT(library != NULL);
  their_malloc = (void* (*)(size_t))dlsym(library, "late_allocate");
  their_realloc = (void* (*)(void*, size_t))dlsym(library, "late_realloc");
  their_free = (void (*)(void*))dlsym(library, "late_free");
  unsigned long state = 1;
  for (int i = 0; i < 3000; i++) {
    size_t size = random_size(&state);
    char* block = marked(their_malloc(size), size);
    if (strcmp(mode, "namespace") == 0) {
      expect_marked(block, size);
      their_free(their_realloc(block, size + 5000));
      free_marked(marked(malloc(size), size), size);
      continue;
    }
    if (i % 3 == 0) {
      char first = block[0];
      block = realloc(block, size + 5000);
      EXPECT(block != NULL && block[0] == first && block[size - 1] == first);
      free(block);
    } else {
      free_marked(block, size);
    }
    if (strcmp(mode, "reverse") == 0) {
      block = marked(malloc(size), size);
      their_free(block);
    }
  }
  return ok();
}

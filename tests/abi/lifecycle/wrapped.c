// Beside a library that defines malloc and __libc_start_main and passes each call on
// (start_wrapper.c):
//   wrapped first    in front of the allocator: it sees each call once; the C library's own blocks
//   can still be freed
//   wrapped last     behind it: it sees no call; the C library's names still lead to the allocator
#include <malloc.h>

#include "expect.h"

static void* in_glibc(const char* name) {
  void* library = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
  EXPECT(library != NULL);
  void* found = dlsym(library, name);
  EXPECT(found != NULL);
  return found;
}

int main(int argc, char** argv) {
  EXPECT(argc == 2);
  int is_first = strcmp(argv[1], "first") == 0;
  if (!is_first) expect_subject();
  size_t* calls = (size_t*)dlsym(RTLD_DEFAULT, "wrapper_calls");
  EXPECT(calls != NULL);
  void* (*take)(size_t) = (void* (*)(size_t))in_glibc(is_first ? "__libc_malloc" : "malloc");
  void (*give)(void*) = (void (*)(void*))in_glibc("free");
  unsigned long state = 1;
  for (int i = 0; i < 500; i++) {
    size_t size = random_size(&state) % 20000 + 1, before = *calls;
    free_marked(marked(malloc(size), size), size);
    EXPECT(*calls == before + (is_first ? 2 : 0));
    free_marked(marked(take(size), size), size);
    if (is_first) continue;
    void* block = marked(malloc(size), size);
    expect_marked(block, size);
    give(block);
  }
  return ok();
}

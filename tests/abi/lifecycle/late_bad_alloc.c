// bad_alloc thrown from a C++ library that a C program opened locally, as an interpreter opens its
// extensions: the C++ runtime is not loaded when the allocator starts and is not in the global
// scope afterwards.
//   late_bad_alloc LIBRARY
#include "expect.h"

int main(int argc, char** argv) {
  EXPECT(argc == 2);
  expect_subject();
  EXPECT(dlsym(RTLD_DEFAULT, "__cxa_throw") == NULL);
  void* library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  EXPECT(library != NULL);
  int (*bad_alloc)(void) = (int (*)(void))dlsym(library, "late_bad_alloc");
  EXPECT(bad_alloc != NULL);
  EXPECT(bad_alloc() == 2);
  EXPECT(bad_alloc() == 2);
  return ok();
}

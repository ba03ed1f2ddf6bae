// A library that opens a plugin by a name that only its own RUNPATH resolves: dlopen depends on its
// caller.
#include <dlfcn.h>

void* open_plugin(const char* name) {
  void* library = dlopen(name, RTLD_LAZY | RTLD_LOCAL | RTLD_DEEPBIND);
  // Else the call becomes a jump, and this library is not the caller.
  __asm__ volatile("" : "+r"(library));
  return library;
}

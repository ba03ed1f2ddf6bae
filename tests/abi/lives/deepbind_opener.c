// A library that opens a plugin by a name which only its own RUNPATH leads to: dlopen goes by its caller.
#include <dlfcn.h>

void* open_plugin(const char* name) {
  void* library = dlopen(name, RTLD_LAZY | RTLD_LOCAL | RTLD_DEEPBIND);
  __asm__ volatile("" : "+r"(library));  // a call in the end would be a jump, and this library not the caller
  return library;
}

// Loads Python while it runs, has it allocate, and waits: load_python LIBRARY.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <unistd.h>

int main(int argc, char** argv) {
  void* python = argc == 2 ? dlopen(argv[1], RTLD_NOW | RTLD_GLOBAL) : NULL;
  if (python == NULL) return fprintf(stderr, "%s\n", dlerror()), 2;
  void (*start)(int) = (void (*)(int))dlsym(python, "Py_InitializeEx");
  int (*run)(const char*) = (int (*)(const char*))dlsym(python, "PyRun_SimpleString");
  start(0);
  run("kept = []\ndef within():\n  kept.append(bytearray(100000))\n");
  // Gives the library time to notice it.
  for (int i = 0; i < 50; i++) {
    usleep(40000);
    run("within()\n");
  }
  puts("ready");
  fflush(stdout);
  char byte;
  return (int)read(0, &byte, 1);
}

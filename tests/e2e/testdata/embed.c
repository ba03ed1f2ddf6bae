// Starts and ends Python several times, and allocates and uses CPU time before, between and after.
#include <Python.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static void* volatile kept[64];

__attribute__((noinline)) static void work(void) {
  for (int i = 0; i < 64; i++) {
    free(kept[i]);
    kept[i] = malloc(1000 + i);
  }
  clock_t end = clock() + CLOCKS_PER_SEC / 20;
  while (clock() < end) free(malloc(40000));
}

int main(void) {
  for (int i = 0; i < 5; i++) {
    work();
    Py_InitializeEx(0);
    PyRun_SimpleString(
        "def within():\n  return [bytearray(5000) for _ in range(4000)]\nwithin()\n");
    PyThreadState* other = Py_NewInterpreter();
    PyRun_SimpleString("def other():\n  return [bytearray(5000) for _ in range(4000)]\nother()\n");
    Py_EndInterpreter(other);
    PyThreadState_Swap(PyInterpreterState_ThreadHead(PyInterpreterState_Main()));
    work();
    Py_Finalize();
    work();
  }
  puts("done");
  return 0;
}

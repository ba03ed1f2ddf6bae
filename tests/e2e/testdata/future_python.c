// The symbols of a CPython whose version is not known yet.
#include <stdio.h>
#include <stdlib.h>

const unsigned long Py_Version = 0x03630000;
char PyCode_Type[512], PyUnicode_Type[512], PyBytes_Type[512];
void* PyGILState_GetThisThreadState(void) { abort(); }

int main(void) {
  free(malloc(1 << 20));
  puts("done");
  return 0;
}

// small_objects [BYTES] [OBJECTS]: OBJECTS objects of BYTES bytes (8 or more), each with the
// address of the previous one in it, so that the program needs no other memory; then all are freed
// along the chain.
//
// Stands for: lists, trees and maps of numbers. bytes_per_object is the resident memory per object:
// rounding, headers and the allocator's own records together. TCMalloc's design document promises 8
// × 1.01.
#include "workload.h"

int main(int count, char** arguments) {
  const long bytes = workload::argument(count, arguments, 1, 8);
  const long objects = workload::argument(count, arguments, 2, 20'000'000);
  const double before = workload::resident_kib();
  char* last = nullptr;
  for (long i = 0; i < objects; ++i) {
    char* object = workload::allocate_touched(bytes);
    memcpy(object, &last, sizeof last);
    last = object;
  }
  const double after = workload::resident_kib();
  while (last) {
    char* object = last;
    memcpy(&last, object, sizeof last);
    free(object);
  }
  workload::metric("bytes_per_object", (after - before) * 1024 / objects);
  workload::report();
}

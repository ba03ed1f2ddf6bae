// vector_growth [MAX_KIB] [STEPS] [VECTORS]: VECTORS arrays grow by realloc, a random one at each
// step: a third of them by doubling, a third by half, a third by a fixed 1/64 of MAX_KIB. The new
// part is written. An array that would exceed MAX_KIB is freed and begins again at 64 bytes (those
// of fixed steps: at one step).
//
// Stands for: vectors, strings and buffers that are appended to, many at the same time, so that
// there is rarely free space behind one. Measures growing in place, moving pages instead of bytes,
// and how well the freed sizes are reused.
#include <vector>

#include "workload.h"

namespace {

struct Array {
  char* block = nullptr;
  size_t bytes = 0;
};

size_t next_bytes(size_t bytes, long kind, size_t step) {
  if (kind == 2) return bytes + step;
  if (bytes == 0) return 64;
  return kind == 0 ? bytes * 2 : bytes + bytes / 2;
}

}  // namespace

int main(int count, char** arguments) {
  const size_t max = workload::argument(count, arguments, 1, 4096) * 1024;
  const long steps = workload::argument(count, arguments, 2, 20'000);
  const long vectors = workload::argument(count, arguments, 3, 60);
  workload::Random random(1);
  std::vector<Array> all(vectors);
  workload::Clock clock;
  for (long i = 0; i < steps; ++i) {
    const long chosen = random.below(vectors);
    Array& array = all[chosen];
    size_t bytes = next_bytes(array.bytes, chosen % 3, max / 64);
    if (bytes > max) {
      free(array.block);
      array = Array();
      bytes = next_bytes(0, chosen % 3, max / 64);
    }
    array.block = static_cast<char*>(realloc(array.block, bytes));
    memset(array.block + array.bytes, 1, bytes - array.bytes);
    array.bytes = bytes;
  }
  workload::metric("us_per_step", clock.seconds() * 1e6 / steps);
  for (const Array& array : all) free(array.block);
  workload::report();
}

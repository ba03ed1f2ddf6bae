// string_sort [SORT] [STRINGS]: a vector of random 16-digit hexadecimal strings, sorted if SORT is
// 1, then dropped.
//
// Stands for: C++ programs that mostly use strings. 16 digits are one more than std::string stores
// inline, so each is a block. Sorting moves strings: they are then freed in random order, which
// must not cost more than sorting gains (a field report had "not sorting is slower than sorting":
// 29.7 s with glibc, 25.3 s with tcmalloc for 3 × 10 M).
#include <algorithm>
#include <string>
#include <vector>

#include "workload.h"

int main(int count, char** arguments) {
  const bool sort = workload::argument(count, arguments, 1, 1) != 0;
  const long strings = workload::argument(count, arguments, 2, 10'000'000);
  workload::Random random(1);
  workload::Clock building;
  {
    std::vector<std::string> all;
    char digits[17];
    for (long i = 0; i < strings; ++i) {
      uint64_t number = random.next() << 32 ^ random.next();
      for (int d = 0; d < 16; ++d, number >>= 4) digits[d] = "0123456789abcdef"[number & 15];
      all.emplace_back(digits, 16);
    }
    workload::metric("build_s", building.seconds());
    workload::Clock sorting;
    if (sort) std::sort(all.begin(), all.end());
    workload::metric("sort_s", sorting.seconds());
    building = workload::Clock();
  }
  workload::metric("drop_s", building.seconds());
  workload::report();
}

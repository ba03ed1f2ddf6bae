// The square root. The library does not link libm.
#pragma once

#include <bit>
#include <cstdint>

namespace seemalloc::profile {

// Newton's method, starting from a guess with half the exponent.
inline double square_root(double x) {
  if (!(x > 0)) return 0;
  double root = std::bit_cast<double>((std::bit_cast<uint64_t>(x) >> 1) + (uint64_t{1023} << 51));
  for (int i = 0; i < 5; i++) root = 0.5 * (root + x / root);
  return root;
}

}  // namespace seemalloc::profile

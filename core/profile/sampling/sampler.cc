#include "core/profile/sampling/sampler.h"

#include <bit>

#include "core/os/kernel/random.h"

namespace seemalloc::profile {

namespace {

constexpr double kLn2 = 0.693147180559945309417232121458;
constexpr uint64_t kSqrtHalfBits = std::bit_cast<uint64_t>(0.707106781186547524400844362105);
constexpr uint64_t kMantissaMask = (uint64_t{1} << 52) - 1;
constexpr uint64_t kExponentBias = 1023;
// exp(-x) is below half an ulp of 1 from here on: the block is certain to be sampled.
constexpr double kCertain = 37.0;

double power_of_two(int exponent) {
  return std::bit_cast<double>(static_cast<uint64_t>(exponent + static_cast<int>(kExponentBias))
                               << 52);
}

// ln of a positive normal number, within a few ulp; also relatively exact just below 1.
double natural_log(double x) {
  // x = mantissa × 2^exponent, √½ ≤ mantissa < √2. Without a branch, which would be mispredicted
  // half of the time.
  uint64_t bits = std::bit_cast<uint64_t>(x) + ((kExponentBias << 52) - kSqrtHalfBits);
  int exponent = static_cast<int>(bits >> 52) - static_cast<int>(kExponentBias);
  double mantissa = std::bit_cast<double>((bits & kMantissaMask) + kSqrtHalfBits);
  // ln m = 2 artanh(s), s = (m-1)/(m+1): the sum of s^(2k+1)/(2k+1). |s| ≤ 0.172, so 12 terms leave
  // less than 1e-18. Summed as a tree: a chain would take three times as long.
  double s = (mantissa - 1) / (mantissa + 1);
  double z = s * s, z2 = z * z, z4 = z2 * z2;
  double low = (1 + z * (1.0 / 3)) + z2 * (1.0 / 5 + z * (1.0 / 7));
  double middle = (1.0 / 9 + z * (1.0 / 11)) + z2 * (1.0 / 13 + z * (1.0 / 15));
  double high = (1.0 / 17 + z * (1.0 / 19)) + z2 * (1.0 / 21 + z * (1.0 / 23));
  return 2 * s * (low + z4 * (middle + z4 * high)) + exponent * kLn2;
}

// 1-exp(-x) for x ≥ 0, without cancellation for small x.
double one_minus_exp(double x) {
  if (x >= kCertain) return 1;
  int halvings = static_cast<int>(x / kLn2 + 0.5);
  double rest = x - halvings * kLn2;  // |rest| ≤ ln2/2
  // 1-exp(-r) = r(1 - r/2(1 - r/3(…))): 16 terms leave less than 1e-20.
  double series = 1;
  for (int n = 16; n >= 2; n--) series = 1 - rest / n * series;
  series *= rest;
  if (halvings == 0) return series;
  return 1 - power_of_two(-halvings) * (1 - series);
}

}  // namespace

uint64_t Random::next() {
  if (state == 0) {
    state = os::random_bits();
    if (state == 0) state = 0x9E3779B97F4A7C15u;
  }
  state ^= state >> 12;
  state ^= state << 25;
  state ^= state >> 27;
  return state * 0x2545F4914F6CDD1Du;
}

int64_t draw_distance_bytes(Random& random, uint64_t interval_bytes) {
  if (interval_bytes == 0) return INT64_MAX;
  if (interval_bytes == 1) return 1;
  // u in (0, 1]; the upper 53 bits are the best ones. Rounding up makes the integer exactly
  // geometric, so that a block of s bytes is sampled with probability 1-exp(-s/R), which is the
  // probability that sample_weight inverts.
  double u = static_cast<double>((random.next() >> 11) + 1) * 0x1p-53;
  double distance = -natural_log(u) * static_cast<double>(interval_bytes);
  if (distance >= 0x1p63) return INT64_MAX;
  int64_t whole = static_cast<int64_t>(distance);
  if (static_cast<double>(whole) < distance) whole++;
  return whole < 1 ? 1 : whole;
}

double sample_weight(uint64_t bytes, uint64_t interval_bytes) {
  if (interval_bytes <= 1) return 1;
  if (bytes == 0) bytes = 1;
  return 1 / one_minus_exp(static_cast<double>(bytes) / static_cast<double>(interval_bytes));
}

}  // namespace seemalloc::profile

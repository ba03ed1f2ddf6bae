// The units used throughout, and the fixed sizes of pages and regions.
//
// Used by every layer. The OS page size is not here: it is read at run time (os/kernel/memory.h).
#pragma once

#include <cstddef>
#include <cstdint>

namespace seemalloc {

inline constexpr size_t KiB = size_t{1} << 10;
inline constexpr size_t MiB = size_t{1} << 20;
inline constexpr size_t GiB = size_t{1} << 30;

// Our page: the granule of the page map and of spans.
inline constexpr size_t kPageShift = 13;
inline constexpr size_t kPageBytes = size_t{1} << kPageShift;

// A region has the size and alignment of a huge page of x86-64, and is filled with spans.
inline constexpr size_t kRegionShift = 21;
inline constexpr size_t kRegionBytes = size_t{1} << kRegionShift;
inline constexpr size_t kPagesPerRegion = kRegionBytes / kPageBytes;

// Data written by different threads is kept at least this far apart.
inline constexpr size_t kCacheLineBytes = 64;

// Upper bound of a program's address space.
#if defined(__x86_64__)
inline constexpr size_t kAddressSpaceBytes = size_t{1} << 47;
#else
inline constexpr size_t kAddressSpaceBytes = size_t{1} << 48;
#endif

inline constexpr uint64_t kMicrosecondNs = 1000;
inline constexpr uint64_t kMillisecondNs = 1000 * kMicrosecondNs;
inline constexpr uint64_t kSecondNs = 1000 * kMillisecondNs;

constexpr bool is_power_of_two(size_t n) { return n != 0 && (n & (n - 1)) == 0; }
constexpr size_t round_up(size_t n, size_t power_of_two) {
  return (n + power_of_two - 1) & ~(power_of_two - 1);
}
constexpr size_t round_down(size_t n, size_t power_of_two) { return n & ~(power_of_two - 1); }
// a − b if that is positive, else 0.
constexpr uint64_t saturating_subtract(uint64_t a, uint64_t b) { return a > b ? a - b : 0; }
constexpr size_t pages_for(size_t bytes) { return (bytes + kPageBytes - 1) >> kPageShift; }

}  // namespace seemalloc

// Size classes, computed at compile time: request → class by table, class → block size, span sizes,
// reciprocal.
//
// 8 bytes, then steps of 16 bytes up to 128, 8 classes per doubling up to 2 KiB (a step of at most
// 12.5 %), 4 per doubling up to 32 KiB. Larger requests take whole pages (large.h). Class sizes are
// multiples of 16 except the first, which serves requests of at most 8 bytes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "core/base/units.h"

namespace seemalloc::heap {

inline constexpr size_t kTinyTableMax = 1024;
inline constexpr size_t kMaxSmallBytes = 32 * KiB;
// 128 KiB, for blocks of 1 KiB and more; half of that for smaller blocks.
inline constexpr size_t kMaxSpanPages = 16;

namespace detail {

constexpr unsigned count_classes() {
  unsigned count = 1 + 8;
  for (size_t size = 128; size < 2048; size *= 2) count += 8;
  for (size_t size = 2048; size < kMaxSmallBytes; size *= 2) count += 4;
  return count;
}

}  // namespace detail

inline constexpr unsigned kClassCount = detail::count_classes();

struct SizeClass {
  uint32_t bytes;
  uint16_t min_pages;  // smallest span: at least one block, and at most an eighth is tail waste
  // Blocks that the first extension of a span carves: about 2 KiB.
  uint16_t max_blocks_per_extension;
};

namespace detail {

constexpr uint16_t min_span_pages(size_t bytes) {
  for (size_t pages = pages_for(bytes);; pages++) {
    size_t waste = pages * kPageBytes % bytes;
    if (waste * 8 <= pages * kPageBytes) return static_cast<uint16_t>(pages);
  }
}

constexpr std::array<SizeClass, kClassCount> make_classes() {
  std::array<SizeClass, kClassCount> classes{};
  unsigned n = 0;
  auto add = [&](size_t bytes) {
    size_t extension = 2 * KiB / bytes;
    classes[n++] = SizeClass{static_cast<uint32_t>(bytes), min_span_pages(bytes),
                             static_cast<uint16_t>(extension == 0 ? 1 : extension)};
  };
  add(8);
  for (size_t bytes = 16; bytes <= 128; bytes += 16) add(bytes);
  for (size_t from = 128; from < 2048; from *= 2) {
    for (size_t step = 1; step <= 8; step++) add(from + from / 8 * step);
  }
  for (size_t from = 2048; from < kMaxSmallBytes; from *= 2) {
    for (size_t step = 1; step <= 4; step++) add(from + from / 4 * step);
  }
  return classes;
}

}  // namespace detail

inline constexpr std::array<SizeClass, kClassCount> kClasses = detail::make_classes();

namespace detail {

constexpr uint8_t class_for(size_t bytes) {
  uint8_t c = 0;
  while (kClasses[c].bytes < bytes) c++;
  return c;
}

template <size_t kStep, size_t kMax>
constexpr std::array<uint8_t, kMax / kStep + 1> make_table() {
  std::array<uint8_t, kMax / kStep + 1> table{};
  for (size_t i = 0; i <= kMax / kStep; i++) table[i] = class_for(i * kStep);
  return table;
}

}  // namespace detail

// Indexed by the request in steps of 8 bytes (≤ 1 KiB) and of 128 bytes (≤ 32 KiB).
inline constexpr auto kTinyTable = detail::make_table<8, kTinyTableMax>();
inline constexpr auto kSmallTable = detail::make_table<128, kMaxSmallBytes>();

// The class of a request. Requires: bytes ≤ kMaxSmallBytes.
constexpr unsigned class_of(size_t bytes) {
  return bytes <= kTinyTableMax ? kTinyTable[(bytes + 7) / 8] : kSmallTable[(bytes + 127) / 128];
}

// The smallest class whose blocks all have this alignment (spans start at a page boundary): the
// class of the request rounded up to a multiple of the alignment. Each class size is a multiple of
// the step to its neighbours, which is a power of two. If the alignment divides the step, all
// classes there are aligned; otherwise there is a class for each multiple of the alignment.
// Requires: bytes ≤ kMaxSmallBytes, alignment a power of two ≤ kPageBytes.
constexpr unsigned aligned_class_of(size_t bytes, size_t alignment) {
  return class_of(round_up(bytes == 0 ? 1 : bytes, alignment));
}

static_assert(kClassCount == 57);
static_assert(kClasses[kClassCount - 1].bytes == kMaxSmallBytes);

}  // namespace seemalloc::heap

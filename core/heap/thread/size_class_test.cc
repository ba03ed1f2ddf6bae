#include "core/heap/thread/size_class.h"

#include <gtest/gtest.h>

namespace seemalloc::heap {
namespace {

TEST(SizeClass, EveryRequestGetsTheTightestClass) {
  for (size_t bytes = 0; bytes <= kMaxSmallBytes; bytes++) {
    unsigned c = class_of(bytes);
    ASSERT_GE(kClasses[c].bytes, bytes);
    if (c != 0) ASSERT_LT(kClasses[c - 1].bytes, bytes) << bytes;
  }
}

TEST(SizeClass, StepsAreBounded) {
  for (unsigned c = 1; c < kClassCount; c++) {
    uint32_t bytes = kClasses[c].bytes, before = kClasses[c - 1].bytes;
    EXPECT_EQ(bytes % 16, 0u);
    if (before >= 128 && bytes <= 2048) EXPECT_LE((bytes - before) * 8, before) << bytes;
    if (before >= 2048) EXPECT_LE((bytes - before) * 4, before) << bytes;
  }
}

TEST(SizeClass, CacheLineMultiplesArePresent) {
  for (size_t bytes : {64, 128, 192, 256, 320, 384, 448, 512, 1024, 2048, 4096})
    EXPECT_EQ(kClasses[class_of(bytes)].bytes, bytes);
}

TEST(SizeClass, EveryAlignmentHasTheTightestClass) {
  for (size_t alignment = 1; alignment <= kPageBytes; alignment *= 2) {
    for (size_t bytes = 0; bytes <= kMaxSmallBytes; bytes++) {
      unsigned tightest = class_of(bytes);
      while (kClasses[tightest].bytes % alignment != 0) tightest++;
      ASSERT_EQ(aligned_class_of(bytes, alignment), tightest)
          << bytes << " aligned to " << alignment;
    }
  }
}

TEST(SizeClass, SpansWasteAtMostAnEighthAtTheirEnd) {
  for (const SizeClass& c : kClasses) {
    size_t span = c.min_pages * kPageBytes;
    EXPECT_LE(span % c.bytes * 8, span) << c.bytes;
    EXPECT_GE(span, c.bytes);
    EXPECT_LE(c.min_pages, kMaxSpanPages) << c.bytes;
    EXPECT_GE(c.max_blocks_per_extension, 1);
  }
}

// The golden table: changing a class changes every program's memory, so it must be intended.
TEST(SizeClass, GoldenTable) {
  const uint32_t golden[] = {8,     16,    32,    48,    64,    80,    96,   112,  128,  144,
                             160,   176,   192,   208,   224,   240,   256,  288,  320,  352,
                             384,   416,   448,   480,   512,   576,   640,  704,  768,  832,
                             896,   960,   1024,  1152,  1280,  1408,  1536, 1664, 1792, 1920,
                             2048,  2560,  3072,  3584,  4096,  5120,  6144, 7168, 8192, 10240,
                             12288, 14336, 16384, 20480, 24576, 28672, 32768};
  ASSERT_EQ(std::size(golden), kClassCount);
  for (unsigned c = 0; c < kClassCount; c++) EXPECT_EQ(kClasses[c].bytes, golden[c]);
}

}  // namespace
}  // namespace seemalloc::heap

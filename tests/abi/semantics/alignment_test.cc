// Alignment: malloc's default, the aligned functions for every power of two up to 1 GiB, and their
// corner cases.
#include <gtest/gtest.h>
#include <malloc.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "../harness/subject.h"

namespace {

using conform::opaque;

size_t low_bits(const void* p, size_t alignment) {
  return reinterpret_cast<uintptr_t>(p) % alignment;
}

TEST(Alignment, MallocGivesSixteen) {
  for (size_t size = 0; size <= 40000; size += size < 2000 ? 1 : 97) {
    size_t alignment = size <= 8 ? 8 : 16;
    void* blocks[4] = {opaque(malloc(size)), opaque(malloc(size)), opaque(calloc(1, size)),
                       opaque(realloc(nullptr, size))};
    for (void* block : blocks) {
      ASSERT_EQ(low_bits(block, alignment), 0u) << size;
      free(block);
    }
  }
  for (size_t size = 50000; size < (size_t{100} << 20); size = size * 3 + 1) {
    void* block = opaque(malloc(size));
    ASSERT_EQ(low_bits(block, 16), 0u) << size;
    free(block);
  }
}

TEST(Alignment, ReallocGivesSixteen) {
  void* block = nullptr;
  for (size_t size : {9, 17, 100, 50, 5000, 33, 100000, 1 << 20, 200, 24}) {
    block = opaque(realloc(block, size));
    ASSERT_EQ(low_bits(block, 16), 0u) << size;
  }
  free(block);
}

// Fills the usable bytes; of a large block, both ends. (glibc counts the whole rest of a mapping as
// usable.)
void fill(void* block, int mark) {
  size_t usable = malloc_usable_size(block), piece = usable < 1 << 20 ? usable : 1 << 19;
  memset(block, mark, piece);
  memset(static_cast<char*>(block) + usable - piece, mark, piece);
}

// Every usable byte is written; neighbours of the same kind must not change.
void expect_aligned(size_t alignment, size_t size) {
  SCOPED_TRACE(testing::Message() << "alignment " << alignment << " size " << size);
  void* blocks[3] = {};
  blocks[0] = opaque(memalign(alignment, size));
  blocks[1] = opaque(aligned_alloc(alignment, size));
  ASSERT_EQ(posix_memalign(&blocks[2], alignment < sizeof(void*) ? sizeof(void*) : alignment, size),
            0);
  for (int i = 0; i < 3; i++) {
    ASSERT_NE(blocks[i], nullptr);
    EXPECT_EQ(low_bits(blocks[i], alignment), 0u);
    EXPECT_GE(malloc_usable_size(blocks[i]), size);
    fill(blocks[i], i + 1);
  }
  for (int i = 0; i < 3; i++) {
    auto bytes = static_cast<unsigned char*>(blocks[i]);
    if (size != 0) {
      EXPECT_EQ(bytes[0] + bytes[size - 1], 2 * (i + 1));
    }
    free(blocks[i]);
  }
}

TEST(Alignment, EveryPowerOfTwoToAGigabyte) {
  for (size_t alignment = 1; alignment <= size_t{1} << 30; alignment *= 2) {
    for (size_t size : {size_t{0}, size_t{1}, size_t{7}, size_t{24}, size_t{100}, size_t{1000},
                        size_t{5000}, size_t{40000}, size_t{300000}}) {
      expect_aligned(alignment, size);
    }
    if (alignment <= size_t{1} << 20) {
      for (size_t size : {alignment - 1, alignment, alignment + 1, 3 * alignment})
        expect_aligned(alignment, size);
    }
  }
}

TEST(Alignment, ManyAtOnceDoNotOverlap) {
  for (size_t alignment : {size_t{32}, size_t{64}, size_t{128}, size_t{512}, size_t{4096},
                           size_t{8192}, size_t{65536}, size_t{2} << 20}) {
    std::vector<unsigned char*> blocks;
    size_t count = alignment > 65536 ? 8 : 200;
    for (size_t i = 0; i < count; i++) {
      auto block = opaque(static_cast<unsigned char*>(memalign(alignment, 40 + i)));
      ASSERT_EQ(low_bits(block, alignment), 0u);
      fill(block, static_cast<int>(i));
      blocks.push_back(block);
    }
    for (size_t i = 0; i < count; i++) {
      for (size_t j = 0; j < 40 + i; j++) ASSERT_EQ(blocks[i][j], i);
      free(blocks[i]);
    }
  }
}

TEST(Alignment, MemalignRoundsOddAlignmentsUp) {
  for (size_t alignment : {0, 1, 3, 5, 9, 17, 24, 33, 48, 100, 1000, 4095, 4097, 100000}) {
    size_t rounded = 1;
    while (rounded < alignment) rounded *= 2;
    void* block = opaque(memalign(opaque(alignment), 100));
    ASSERT_NE(block, nullptr) << alignment;
    EXPECT_EQ(low_bits(block, rounded), 0u) << alignment;
    memset(block, 1, 100);
    free(block);
  }
}

// glibc up to 2.37 behaves as memalign. From 2.38 on, as in the manual, it fails with EINVAL. Both
// are accepted; a misaligned block is not.
TEST(Alignment, AlignedAllocRoundsOddAlignmentsUpOrRefuses) {
  for (size_t alignment : {3, 24, 48, 100, 4097}) {
    size_t rounded = 1;
    while (rounded < alignment) rounded *= 2;
    errno = 4242;
    void* block = opaque(aligned_alloc(opaque(alignment), 100));
    if (block == nullptr) {
      EXPECT_EQ(errno, EINVAL) << alignment;
    } else {
      EXPECT_EQ(errno, 4242);
      EXPECT_EQ(low_bits(block, rounded), 0u) << alignment;
    }
    free(block);
  }
}

TEST(Alignment, AlignedAllocTakesSizesThatAreNoMultiple) {
  for (size_t size : {1, 63, 65, 100}) {
    void* block = opaque(aligned_alloc(64, opaque(size)));
    ASSERT_NE(block, nullptr) << size;
    EXPECT_EQ(low_bits(block, 64), 0u);
    free(block);
  }
}

TEST(Alignment, PageFunctions) {
  size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  for (size_t size :
       {size_t{0}, size_t{1}, page - 1, page, page + 1, 10 * page + 7, size_t{5} << 20}) {
    void* v = opaque(valloc(size));
    void* pv = opaque(pvalloc(size));
    ASSERT_NE(v, nullptr);
    ASSERT_NE(pv, nullptr);
    EXPECT_EQ(low_bits(v, page), 0u);
    EXPECT_EQ(low_bits(pv, page), 0u);
    EXPECT_GE(malloc_usable_size(v), size);
    EXPECT_GE(malloc_usable_size(pv), (size + page - 1) / page * page)
        << "pvalloc rounds up to whole pages";
    memset(pv, 1, malloc_usable_size(pv));
    free(v);
    free(pv);
  }
}

TEST(Alignment, ReallocOfAlignedBlocksKeepsContents) {
  for (size_t alignment : {size_t{64}, size_t{4096}, size_t{65536}, size_t{2} << 20}) {
    for (size_t size : {size_t{10}, size_t{1000}, size_t{10000}, size_t{200000}}) {
      for (size_t next : {size_t{1}, size_t{500}, size_t{9000}, size_t{50000}, size_t{1} << 20}) {
        auto block = opaque(static_cast<unsigned char*>(memalign(alignment, size)));
        for (size_t i = 0; i < size; i++) block[i] = static_cast<unsigned char>(i * 7);
        block = opaque(static_cast<unsigned char*>(realloc(block, next)));
        ASSERT_NE(block, nullptr);
        for (size_t i = 0; i < size && i < next; i++)
          ASSERT_EQ(block[i], static_cast<unsigned char>(i * 7));
        free(block);
      }
    }
  }
}

}  // namespace

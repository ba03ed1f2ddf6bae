// Contents: blocks are distinct, writable up to their usable size, zeroed by calloc, and preserved
// by realloc.
#include <gtest/gtest.h>
#include <malloc.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "../harness/subject.h"

namespace {

using conform::opaque;

TEST(Contents, ZeroSizesGiveDistinctBlocks) {
  std::vector<void*> blocks;
  for (int i = 0; i < 100; i++) {
    blocks.push_back(opaque(malloc(opaque(size_t{0}))));
    blocks.push_back(opaque(calloc(opaque(size_t{0}), 8)));
    blocks.push_back(opaque(calloc(8, opaque(size_t{0}))));
    blocks.push_back(opaque(realloc(nullptr, opaque(size_t{0}))));
    blocks.push_back(opaque(memalign(64, opaque(size_t{0}))));
    blocks.push_back(opaque(aligned_alloc(4096, opaque(size_t{0}))));
    blocks.push_back(opaque(valloc(opaque(size_t{0}))));
    blocks.push_back(opaque(reallocarray(nullptr, opaque(size_t{0}), 8)));
    void* p = nullptr;
    ASSERT_EQ(posix_memalign(&p, 32, opaque(size_t{0})), 0);
    blocks.push_back(p);
  }
  std::set<void*> distinct(blocks.begin(), blocks.end());
  EXPECT_EQ(distinct.size(), blocks.size());
  EXPECT_EQ(distinct.count(nullptr), 0u);
  for (void* block : blocks) free(block);
}

TEST(Contents, UsableSizeIsWritable) {
  std::mt19937 random(1);
  for (size_t size = 0; size <= 300000; size += size < 1100 ? 1 : size < 40000 ? 61 : 4001) {
    unsigned char* blocks[3];
    size_t usable[3];
    for (int i = 0; i < 3; i++) {
      blocks[i] = opaque(static_cast<unsigned char*>(malloc(size)));
      usable[i] = malloc_usable_size(blocks[i]);
      ASSERT_GE(usable[i], size);
      memset(blocks[i], 0x11 * (i + 1), usable[i]);
    }
    for (int i = 0; i < 3; i++) {
      ASSERT_EQ(malloc_usable_size(blocks[i]), usable[i]) << size;
      for (size_t j = 0; j < usable[i]; j++) ASSERT_EQ(blocks[i][j], 0x11 * (i + 1)) << size;
      free(blocks[i]);
    }
  }
}

TEST(Contents, BytesInUsableSizeSurviveRealloc) {
  // The block is as large as malloc_usable_size reports: growing to that size stays in place or
  // copies all of it.
  for (size_t size : {size_t{1}, size_t{20}, size_t{130}, size_t{1000}, size_t{5000}, size_t{70000},
                      size_t{2} << 20}) {
    auto block = opaque(static_cast<unsigned char*>(malloc(size)));
    size_t usable = malloc_usable_size(block);
    memset(block, 0x77, usable);
    block = opaque(static_cast<unsigned char*>(realloc(block, usable)));
    for (size_t i = 0; i < usable; i++) ASSERT_EQ(block[i], 0x77);
    free(block);
  }
}

bool is_zero(const unsigned char* bytes, size_t size) {
  return size == 0 || (bytes[0] == 0 && memcmp(bytes, bytes + 1, size - 1) == 0);
}

// Checks all usable bytes; with glibc, too, they are zero.
bool is_zero(unsigned char* block) { return is_zero(block, malloc_usable_size(block)); }

void expect_zero_on_reuse(size_t size, size_t count, bool from_another_thread) {
  SCOPED_TRACE(size);
  std::vector<unsigned char*> blocks;
  for (int round = 0; round < 3; round++) {
    for (size_t i = 0; i < count; i++) {
      // The count and the size are both larger than 1, as in calloc(n, sizeof(thing)).
      auto block = size % 8 == 0 ? calloc(size / 8, 8) : calloc(1, size);
      blocks.push_back(opaque(static_cast<unsigned char*>(block)));
      ASSERT_NE(block, nullptr);
      ASSERT_TRUE(is_zero(blocks.back()));
      memset(block, 0xff, malloc_usable_size(block));
    }
    auto free_all = [&] {
      for (unsigned char* block : blocks) free(block);
    };
    if (from_another_thread) {
      std::thread(free_all).join();
    } else {
      free_all();
    }
    blocks.clear();
    if (round == 1) malloc_trim(0);
  }
}

TEST(Contents, CallocIsZeroAlsoOnReusedMemory) {
  for (size_t size = 1; size <= 4096; size += size < 300 ? 1 : 37)
    expect_zero_on_reuse(size, 30, false);
  for (size_t size : {size_t{5000}, size_t{8192}, size_t{20000}, size_t{32768}, size_t{32769},
                      size_t{65536}, size_t{100000}}) {
    expect_zero_on_reuse(size, 20, false);
  }
  for (size_t size : {size_t{130000}, size_t{1} << 20, (size_t{2} << 20) + 5, size_t{8} << 20,
                      size_t{33} << 20}) {
    expect_zero_on_reuse(size, 3, false);
  }
}

unsigned char* calloc_after_dirt(size_t size) {
  auto dirty = opaque(static_cast<unsigned char*>(malloc(size)));
  memset(dirty, 0xff, malloc_usable_size(dirty));
  free(dirty);
  return opaque(static_cast<unsigned char*>(calloc(1, size)));
}

TEST(Contents, CallocIsZeroToTheUsableSizeForEachSize) {
  for (size_t size = 0; size <= 65536; size++) {
    unsigned char* block = calloc_after_dirt(size);
    ASSERT_TRUE(is_zero(block)) << size << " of " << malloc_usable_size(block);
    free(block);
  }
}

TEST(Contents, CallocIsZeroToTheUsableSizeForLargeSizes) {
  // Some blocks stay live, so that memory other than the last block's is reused, too.
  std::mt19937 random(3);
  std::vector<unsigned char*> held;
  for (int i = 0; i < 3000; i++) {
    size_t most = size_t{1} << (17 + random() % (i % 50 == 0 ? 9 : 5));
    size_t size = 65536 + random() % most;
    unsigned char* block = calloc_after_dirt(size);
    ASSERT_TRUE(is_zero(block)) << size << " of " << malloc_usable_size(block);
    memset(block, 0xee, malloc_usable_size(block));
    held.push_back(block);
    if (held.size() > 8) {
      size_t at = random() % held.size();
      free(held[at]);
      held.erase(held.begin() + static_cast<ptrdiff_t>(at));
    }
  }
  for (unsigned char* block : held) free(block);
}

TEST(Contents, CallocIsZeroOnMemoryFreedByOtherThreads) {
  for (size_t size : {size_t{8}, size_t{48}, size_t{200}, size_t{1000}, size_t{5000}, size_t{40000},
                      size_t{300000}, size_t{3} << 20}) {
    expect_zero_on_reuse(size, size > 100000 ? 3 : 50, true);
  }
}

TEST(Contents, CallocIsZeroWhenSpansChangeTheirSize) {
  // Dirty memory of one size is reused for another: split, merged, regrouped.
  std::mt19937 random(2);
  std::vector<std::pair<unsigned char*, size_t>> held;
  for (int step = 0; step < 20000; step++) {
    size_t size = size_t{1} << (random() % 19);
    size += random() % size;
    auto block = opaque(static_cast<unsigned char*>(calloc(1, size)));
    ASSERT_TRUE(is_zero(block)) << size << " at step " << step;
    memset(block, 0xee, malloc_usable_size(block));
    held.push_back({block, size});
    if (held.size() > 200) {
      size_t at = random() % held.size();
      free(held[at].first);
      held[at] = held.back();
      held.pop_back();
    }
  }
  for (auto& [block, size] : held) free(block);
}

TEST(Contents, PreservedByReallocForAllTransitions) {
  const size_t sizes[] = {
      1,       7,       8,      9,      16,     17,     24,     100,    128,     129,
      500,     1000,    1024,   1025,   2048,   4000,   4096,   8192,   8193,    16000,
      32768,   32769,   65536,  100000, 131072, 131073, 262144, 500000, 1 << 20, (1 << 20) + 1,
      2 << 20, 3 << 20, 9 << 20};
  for (size_t from : sizes) {
    for (size_t to : sizes) {
      auto block = opaque(static_cast<unsigned char*>(malloc(from)));
      size_t kept = from < to ? from : to;
      // Writes all of a small block; of a large one both ends and one byte in 509.
      size_t step = kept > 65536 ? 509 : 1;
      for (size_t i = 0; i < kept; i += step) block[i] = static_cast<unsigned char>(i * 131 + from);
      block[kept - 1] = 0x3c;
      block = opaque(static_cast<unsigned char*>(realloc(block, to)));
      ASSERT_NE(block, nullptr);
      ASSERT_GE(malloc_usable_size(block), to);
      for (size_t i = 0; i < kept - 1; i += step) {
        ASSERT_EQ(block[i], static_cast<unsigned char>(i * 131 + from))
            << from << " to " << to << " at " << i;
      }
      ASSERT_EQ(block[kept - 1], 0x3c) << from << " to " << to;
      block[to - 1] = 1;
      free(block);
    }
  }
}

TEST(Contents, PreservedByGrowthInSteps) {
  for (size_t step : {size_t{1}, size_t{24}, size_t{4096}, size_t{100000}}) {
    unsigned char* block = nullptr;
    size_t filled = 0;
    for (int i = 0; i < 300; i++) {
      size_t size = filled + step;
      block = opaque(static_cast<unsigned char*>(realloc(block, size)));
      for (; filled < size; filled++) block[filled] = static_cast<unsigned char>(filled / 3);
    }
    for (size_t i = 0; i < filled; i++) ASSERT_EQ(block[i], static_cast<unsigned char>(i / 3));
    free(block);
  }
}

// Calls on parts of a block split its mapping into several, which a kernel may move one by one, or
// only in part.
TEST(Contents, PreservedByGrowthOfABlockWithAdvisedParts) {
  constexpr size_t kPart = 64 << 10;
  for (size_t size = size_t{2} << 20; size <= size_t{16} << 20; size *= 2) {
    auto block = opaque(static_cast<unsigned char*>(malloc(size)));
    auto first = reinterpret_cast<unsigned char*>((reinterpret_cast<uintptr_t>(block) + kPart - 1) /
                                                  kPart * kPart);
    for (size_t i = 0; i < size; i += 509) block[i] = static_cast<unsigned char>(i * 131 + size);
    for (unsigned i = 0; i < 8; i++) {
      unsigned char* part = first + 2 * i * kPart;
      ASSERT_EQ(madvise(part, kPart, i % 2 == 0 ? MADV_DONTDUMP : MADV_DONTFORK), 0);
      if (i == 5) mlock(part, kPart);  // refused where the limit is 0
    }
    for (size_t larger = size + size / 3; larger < 5 * size; larger *= 2) {
      block = opaque(static_cast<unsigned char*>(realloc(block, larger)));
      ASSERT_NE(block, nullptr);
      for (size_t i = 0; i < size; i += 509)
        ASSERT_EQ(block[i], static_cast<unsigned char>(i * 131 + size));
      block[larger - 1] = 1;
    }
    free(block);
  }
}

TEST(Contents, ReallocToZeroFrees) {
  // glibc's documented choice: the block is freed and NULL is returned, without an error.
  for (size_t size : {size_t{0}, size_t{10}, size_t{1000}, size_t{100000}, size_t{4} << 20}) {
    errno = 4242;
    void* block = opaque(malloc(size));
    EXPECT_EQ(realloc(block, opaque(size_t{0})), nullptr);
    block = opaque(malloc(size));
    EXPECT_EQ(reallocarray(block, opaque(size_t{0}), 8), nullptr);
    EXPECT_EQ(errno, 4242);
  }
  size_t before = mallinfo2().uordblks;
  for (int i = 0; i < 10000; i++) {
    void* block = opaque(malloc(1000));
    EXPECT_EQ(realloc(block, opaque(size_t{0})), nullptr);
  }
  EXPECT_LT(mallinfo2().uordblks, before + (1 << 20)) << "realloc(p, 0) leaks";
}

TEST(Contents, ReallocArrayGrows) {
  auto block = opaque(static_cast<int*>(reallocarray(nullptr, 10, sizeof(int))));
  for (int i = 0; i < 10; i++) block[i] = i;
  block = opaque(static_cast<int*>(reallocarray(block, 100000, sizeof(int))));
  for (int i = 0; i < 10; i++) EXPECT_EQ(block[i], i);
  block[99999] = 1;
  free(block);
}

TEST(Contents, ReallocOfABlockOfAnotherThread) {
  for (size_t size : {size_t{20}, size_t{2000}, size_t{50000}, size_t{2} << 20}) {
    unsigned char* block = nullptr;
    std::thread([&] {
      block = opaque(static_cast<unsigned char*>(malloc(size)));
      memset(block, 0x44, size);
    }).join();
    for (size_t next : {size * 3, size / 2 + 1}) {
      block = opaque(static_cast<unsigned char*>(realloc(block, next)));
      ASSERT_EQ(block[0], 0x44);
      ASSERT_EQ(block[size / 2], 0x44);
    }
    free(block);
  }
}

}  // namespace

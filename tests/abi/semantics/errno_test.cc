// errno: unchanged by every success and by free; set to ENOMEM (or EINVAL) where a request is
// refused, with no other effect.
#include <gtest/gtest.h>
#include <malloc.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>

#include "../harness/subject.h"

namespace {

using conform::opaque;

constexpr size_t kSizes[] = {0,    1,     8,     16,    100,    1000,    1024,    1025,
                             4096, 10000, 32768, 32769, 100000, 1 << 20, 5 << 20, 64 << 20};
constexpr int kMark = 4242;

TEST(Errno, UntouchedBySuccess) {
  for (size_t size : kSizes) {
    SCOPED_TRACE(size);
    errno = kMark;
    void* blocks[8];
    blocks[0] = opaque(malloc(size));
    blocks[1] = opaque(calloc(size, 1));
    blocks[2] = opaque(realloc(nullptr, size));
    blocks[3] = opaque(reallocarray(nullptr, size, 1));
    blocks[4] = opaque(memalign(64, size));
    blocks[5] = opaque(aligned_alloc(4096, size));
    blocks[6] = opaque(valloc(size));
    blocks[7] = nullptr;
    EXPECT_EQ(posix_memalign(&blocks[7], 256, size), 0);
    EXPECT_EQ(errno, kMark);
    for (void* block : blocks) {
      ASSERT_NE(block, nullptr);
      EXPECT_GE(malloc_usable_size(block), size);
      free(block);
    }
    EXPECT_EQ(errno, kMark);
  }
  free(nullptr);
  EXPECT_EQ(malloc_usable_size(nullptr), 0u);
  EXPECT_EQ(errno, kMark);
}

TEST(Errno, UntouchedByReallocInPlaceAndMoved) {
  errno = kMark;
  void* block = opaque(malloc(1));
  for (size_t size : kSizes) {
    if (size != 0) block = opaque(realloc(block, size));
  }
  for (size_t i = 15; i > 0; i--) block = opaque(realloc(block, kSizes[i]));
  free(block);
  EXPECT_EQ(errno, kMark);
}

// Freeing a large block makes a system call, which may fail and must not change errno.
TEST(Errno, UntouchedByFreeOfManyLargeBlocks) {
  void* blocks[64];
  for (void*& block : blocks) block = opaque(malloc(3 << 20));
  errno = kMark;
  for (void* block : blocks) free(block);
  EXPECT_EQ(errno, kMark);
}

const size_t kTooMuch[] = {static_cast<size_t>(PTRDIFF_MAX) + 1,
                           static_cast<size_t>(PTRDIFF_MAX) + 4096,
                           SIZE_MAX - 8192,
                           SIZE_MAX - 4096,
                           SIZE_MAX - 64,
                           SIZE_MAX - 15,
                           SIZE_MAX - 7,
                           SIZE_MAX};

void expect_refused(const char* what, const std::function<void*()>& f, int code = ENOMEM) {
  errno = kMark;
  EXPECT_EQ(f(), nullptr) << what;
  EXPECT_EQ(errno, code) << what;
}

TEST(Errno, BeyondPtrdiffMaxIsRefused) {
  for (size_t raw : kTooMuch) {
    SCOPED_TRACE(raw);
    size_t size = opaque(raw);
    expect_refused("malloc", [=] { return malloc(size); });
    expect_refused("calloc 1 n", [=] { return calloc(1, size); });
    expect_refused("calloc n 1", [=] { return calloc(size, 1); });
    expect_refused("realloc null", [=] { return realloc(nullptr, size); });
    expect_refused("reallocarray", [=] { return reallocarray(nullptr, size, 1); });
    expect_refused("memalign 8", [=] { return memalign(8, size); });
    expect_refused("memalign 64", [=] { return memalign(64, size); });
    expect_refused("memalign 2 MiB", [=] { return memalign(2 << 20, size); });
    expect_refused("aligned_alloc", [=] { return aligned_alloc(64, size); });
    expect_refused("valloc", [=] { return valloc(size); });
    expect_refused("pvalloc", [=] { return pvalloc(size); });
  }
}

// Sizes that the type allows but no machine provides: 2^63 − 1, and sizes beyond any address space.
TEST(Errno, MoreThanTheAddressSpaceIsRefused) {
  for (size_t raw : {static_cast<size_t>(PTRDIFF_MAX), static_cast<size_t>(PTRDIFF_MAX) - 4096,
                     size_t{1} << 62, size_t{1} << 48}) {
    SCOPED_TRACE(raw);
    size_t size = opaque(raw);
    expect_refused("malloc", [=] { return malloc(size); });
    expect_refused("calloc", [=] { return calloc(size, 1); });
    expect_refused("memalign", [=] { return memalign(4096, size); });
    expect_refused("valloc", [=] { return valloc(size); });
    expect_refused("pvalloc", [=] { return pvalloc(size); });
  }
}

TEST(Errno, ProductsThatOverflowAreRefused) {
  struct Case {
    size_t count, size;
  };
  for (Case c : {Case{SIZE_MAX, 2},
                 {2, SIZE_MAX},
                 {size_t{1} << 32, size_t{1} << 32},
                 {(size_t{1} << 32) + 1, size_t{1} << 32},
                 {SIZE_MAX / 2 + 2, 2},
                 {SIZE_MAX / 3 + 2, 3},
                 {SIZE_MAX, SIZE_MAX}}) {
    size_t count = opaque(c.count), size = opaque(c.size);
    expect_refused("calloc", [=] { return calloc(count, size); });
    expect_refused("reallocarray null", [=] { return reallocarray(nullptr, count, size); });
    auto block = opaque(static_cast<char*>(malloc(100)));
    memset(block, 9, 100);
    expect_refused("reallocarray", [=] { return reallocarray(block, count, size); });
    EXPECT_EQ(block[0] + block[99], 18) << "the old block stays";
    free(block);
  }
}

TEST(Errno, RefusedReallocKeepsTheOldBlock) {
  for (size_t old_size : {size_t{1}, size_t{100}, size_t{5000}, size_t{100000}, size_t{3} << 20}) {
    auto block = opaque(static_cast<unsigned char*>(malloc(old_size)));
    memset(block, 0xab, old_size);
    for (size_t raw : kTooMuch)
      expect_refused("realloc", [=] { return realloc(block, opaque(raw)); });
    expect_refused("realloc 2^62", [=] { return realloc(block, opaque(size_t{1} << 62)); });
    for (size_t i = 0; i < old_size; i++) ASSERT_EQ(block[i], 0xab);
    free(block);
  }
}

TEST(Errno, PosixMemalignReturnsItsCode) {
  void* untouched = &untouched;
  void* p = untouched;
  errno = kMark;
  for (size_t alignment :
       {size_t{0}, size_t{1}, size_t{2}, size_t{4}, size_t{7}, size_t{12}, size_t{24}, size_t{48},
        size_t{100}, size_t{4095}, SIZE_MAX, SIZE_MAX - 7}) {
    EXPECT_EQ(posix_memalign(&p, opaque(alignment), 100), EINVAL) << alignment;
    EXPECT_EQ(p, untouched) << alignment;
  }
  EXPECT_EQ(errno, kMark) << "EINVAL is returned, not stored";
}

// As with glibc; programs that print errno depend on it. POSIX leaves it open.
TEST(Errno, PosixMemalignStoresEnomemToo) {
  void* untouched = &untouched;
  void* p = untouched;
  for (size_t alignment : {size_t{8}, size_t{16}, size_t{64}, size_t{4096}, size_t{2} << 20}) {
    for (size_t size : kTooMuch) {
      errno = kMark;
      EXPECT_EQ(posix_memalign(&p, alignment, opaque(size)), ENOMEM) << size;
      EXPECT_EQ(errno, ENOMEM) << size << " aligned to " << alignment;
      EXPECT_EQ(p, untouched) << size;
    }
  }
  for (size_t alignment : {size_t{1} << 63, size_t{1} << 62}) {
    errno = kMark;
    EXPECT_EQ(posix_memalign(&p, opaque(alignment), 100), ENOMEM);
    EXPECT_EQ(errno, ENOMEM);
    EXPECT_EQ(p, untouched);
  }
}

TEST(Errno, AlignmentsNoSystemHasAreRefused) {
  expect_refused("memalign 2^63", [] { return memalign(opaque(size_t{1} << 63), 100); });
  expect_refused("memalign 2^62", [] { return memalign(opaque(size_t{1} << 62), 100); });
  expect_refused(
      "memalign SIZE_MAX", [] { return memalign(opaque(SIZE_MAX), 100); }, EINVAL);
  expect_refused(
      "memalign 2^63 + 1", [] { return memalign(opaque((size_t{1} << 63) + 1), 100); }, EINVAL);
}

}  // namespace

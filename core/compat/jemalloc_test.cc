// jemalloc's calls where they differ from the C library's.
#include <gtest/gtest.h>
#include <string.h>

#include <string>

#include "core/api/malloc/test_api.h"
#include "core/base/units.h"
#include "core/os/kernel/calls.h"

extern "C" {
void* mallocx(size_t bytes, int flags);
void* rallocx(void* p, size_t bytes, int flags);
size_t xallocx(void* p, size_t bytes, size_t extra, int flags);
using WriteText = void (*)(void* context, const char* text);
extern WriteText malloc_message, je_malloc_message, _rjem_malloc_message;
void malloc_stats_print(WriteText write, void* context, const char* options);
void je_malloc_stats_print(WriteText write, void* context, const char* options);
void _rjem_malloc_stats_print(WriteText write, void* context, const char* options);
}

namespace seemalloc::compat {
namespace {

constexpr int kZero = 0x40;  // MALLOCX_ZERO

// The freed tail is full of non-zero bytes, and the block grows into it again as it is.
TEST(Xallocx, GrownPartIsZero) {
  constexpr size_t kLong = 512 * KiB, kShort = 64 * KiB;
  for (int flags : {0, kZero}) {
    auto* block = static_cast<unsigned char*>(sm_malloc(kLong));
    memset(block, 0xAA, kLong);
    ASSERT_EQ(xallocx(block, kShort, 0, 0), kShort);
    size_t grown = xallocx(block, kShort + 1, kLong - kShort - 1, flags);
    ASSERT_EQ(grown, kLong);
    size_t dirty = 0;
    for (size_t i = kShort; i < grown; i++) dirty += block[i] != 0;
    EXPECT_EQ(dirty, flags == kZero ? 0 : kLong - kShort)
        << "without the flag there is something to see";
    EXPECT_EQ(block[kShort - 1], 0xAA);
    sm_free(block);
  }
}

// Without a system call, and the block stays valid.
TEST(Mallocx, ImpossibleSizesAreRefusedAtOnce) {
  void* small = sm_malloc(100);
  void* huge = sm_malloc(2 * MiB);
  auto calls = [] {
    uint64_t calls = 0;
    for (unsigned i = 0; i < os::kCalls; i++)
      calls += os::call_count(static_cast<os::Call>(i)).calls;
    return calls;
  };
  uint64_t before = calls();
  for (size_t bytes : {kAddressSpaceBytes + 1, size_t{1} << 62, SIZE_MAX / 2, SIZE_MAX / 2 + 1,
                       SIZE_MAX - 4096, SIZE_MAX}) {
    SCOPED_TRACE(bytes);
    // With alignments of 64 bytes, 4 KiB and 1 GiB.
    for (int flags : {0, 6, 12, 30, kZero, kZero | 6, kZero | 12}) {
      EXPECT_EQ(mallocx(bytes, flags), nullptr) << flags;
      EXPECT_EQ(rallocx(small, bytes, flags), nullptr) << flags;
      EXPECT_EQ(rallocx(huge, bytes, flags), nullptr) << flags;
      EXPECT_EQ(xallocx(huge, bytes, 0, flags), 2 * MiB) << flags;
      EXPECT_EQ(xallocx(huge, 2 * MiB, bytes, flags), 2 * MiB) << flags;
    }
  }
  EXPECT_EQ(calls(), before);
  sm_free(small);
  sm_free(huge);
}

std::string written;
void keep(void*, const char* text) { written += text; }
std::string other;
void keep_other(void*, const char* text) { other += text; }

// Each name has its own variable.
TEST(StatsPrint, UsesMessageVariableOfItsPrefix) {
  struct Name {
    WriteText* message;
    void (*print)(WriteText, void*, const char*);
  };
  for (const Name& name :
       {Name{&malloc_message, malloc_stats_print}, Name{&je_malloc_message, je_malloc_stats_print},
        Name{&_rjem_malloc_message, _rjem_malloc_stats_print}}) {
    written.clear();
    *name.message = keep;
    name.print(nullptr, nullptr, nullptr);
    EXPECT_NE(written.find("Begin jemalloc statistics"), std::string::npos);
    size_t once = written.size();
    name.print(keep_other, nullptr, nullptr);
    EXPECT_EQ(written.size(), once);
    EXPECT_FALSE(other.empty());
    *name.message = nullptr;
  }
}

}  // namespace
}  // namespace seemalloc::compat

// jemalloc's calls where they differ from the C library's.
#include <gtest/gtest.h>
#include <string.h>

#include <string>

#include "core/api/test_api.h"
#include "core/base/units.h"

extern "C" {
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

// What was given back is full of something, and comes back as it is.
TEST(Xallocx, WhatHasGrownIsZero) {
  constexpr size_t kLong = 512 * KiB, kShort = 64 * KiB;
  for (int flags : {0, kZero}) {
    auto* block = static_cast<unsigned char*>(sm_malloc(kLong));
    memset(block, 0xAA, kLong);
    ASSERT_EQ(xallocx(block, kShort, 0, 0), kShort);
    size_t grown = xallocx(block, kShort + 1, kLong - kShort - 1, flags);
    ASSERT_EQ(grown, kLong);
    size_t dirty = 0;
    for (size_t i = kShort; i < grown; i++) dirty += block[i] != 0;
    EXPECT_EQ(dirty, flags == kZero ? 0 : kLong - kShort) << "without the flag there is something to see";
    EXPECT_EQ(block[kShort - 1], 0xAA);
    sm_free(block);
  }
}

std::string written;
void keep(void*, const char* text) { written += text; }
std::string other;
void keep_other(void*, const char* text) { other += text; }

// Each name has its variable.
TEST(StatsPrint, GoesToTheMessageOfItsOwnName) {
  struct Name {
    WriteText* message;
    void (*print)(WriteText, void*, const char*);
  };
  for (const Name& name : {Name{&malloc_message, malloc_stats_print}, Name{&je_malloc_message, je_malloc_stats_print},
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

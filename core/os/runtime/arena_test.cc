#include "core/os/runtime/arena.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstdint>
#include <cstring>

#include "core/base/units.h"
#include "core/os/kernel/memory.h"

namespace seemalloc::os {
namespace {

// Number of pages of [start, start + bytes) without memory behind them.
size_t absent_pages(const void* start, size_t bytes) {
  uintptr_t first = round_down(reinterpret_cast<uintptr_t>(start), page_bytes()),
            end = reinterpret_cast<uintptr_t>(start) + bytes;
  size_t absent = 0;
  for (uintptr_t page = first; page < end; page += page_bytes()) {
    unsigned char there = 0;
    EXPECT_EQ(mincore(reinterpret_cast<void*>(page), page_bytes(), &there), 0);
    absent += (there & 1) == 0;
  }
  return absent;
}

TEST(Arena, RecordsOfAtMostAPageArePresent) {
  size_t used = arena_used_bytes(), bytes = page_bytes() / 3;
  for (int i = 0; i < 1000; i++) {
    char* record = static_cast<char*>(arena_allocate(bytes, 8));
    ASSERT_NE(record, nullptr);
    EXPECT_EQ(absent_pages(record, bytes), 0u);
    for (size_t at = 0; at < bytes; at++) ASSERT_EQ(record[at], 0);
    memset(record, 0xff, bytes);
  }
  EXPECT_GE(arena_used_bytes() - used, 1000 * bytes);
}

TEST(Arena, LargeRecordsArePrefaultedOnRequest) {
  size_t bytes = 64 * page_bytes();
  EXPECT_GT(absent_pages(arena_allocate(bytes, 8), bytes), 60u);
  char* present = static_cast<char*>(arena_allocate_prefaulted(bytes, 8));
  EXPECT_EQ(absent_pages(present, bytes), 0u);
  EXPECT_GT(absent_pages(arena_allocate(bytes, 8), bytes), 60u);
  char* small = static_cast<char*>(arena_allocate(16, 8));
  EXPECT_EQ(absent_pages(small, 16), 0u) << "in the last page of one that is not";
  for (size_t at = 0; at < bytes; at++) ASSERT_EQ(present[at], 0);
}

}  // namespace
}  // namespace seemalloc::os

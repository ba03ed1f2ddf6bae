// malloc_usable_size under _FORTIFY_SOURCE=3: the compiler knows the requested size and stops
// writes beyond it. Programs tell it the new size through a function with alloc_size (systemd issue
// 22801), and the size that malloc_usable_size reported must then hold. Built with -O2
// -D_FORTIFY_SOURCE=3.
#include <gtest/gtest.h>
#include <malloc.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "harness/subject.h"

namespace {

__attribute__((noinline, alloc_size(2))) void* grown(void* block, size_t usable) {
  (void)usable;
  asm volatile("" : "+r"(block) : : "memory");
  return block;
}

TEST(Fortify, UsableBytesMayBeWritten) {
  for (size_t size : {size_t{1}, size_t{17}, size_t{100}, size_t{1025}, size_t{5000}, size_t{33000},
                      size_t{200001}}) {
    void* block = malloc(size);
    size_t usable = malloc_usable_size(block);
    ASSERT_GE(usable, size);
    auto bytes = static_cast<char*>(grown(block, usable));
    memset(bytes, 0x31, usable);
    bytes[usable - 1] = 0;
    EXPECT_EQ(strlen(bytes), usable - 1);
    void* next = malloc(size);
    memset(next, 0x32, size);
    EXPECT_EQ(strlen(bytes), usable - 1);
    free(next);
    free(bytes);
  }
}

TEST(Fortify, CheckedCopiesIntoExactSizes) {
  for (size_t size = 1; size < 3000; size += 7) {
    auto block = static_cast<char*>(malloc(size));
    snprintf(block, size, "%*d", static_cast<int>(size) - 1, 5);
    EXPECT_EQ(strlen(block), size - 1);
    block = static_cast<char*>(realloc(block, size * 2));
    memset(block + size - 1, 'x', size);
    block[size * 2 - 1] = 0;
    EXPECT_EQ(strlen(block), size * 2 - 1);
    free(block);
  }
}

}  // namespace

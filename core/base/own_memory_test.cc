#include <gtest/gtest.h>

#include <string>

// Builds with these use the C library's functions (own_memory.h).
#if !defined(__clang__) && !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)

// The functions of own_memory.h by their names for the linker.
extern "C" {
void* own_memcpy(void* to, const void* from, size_t bytes) __asm__("seemalloc_memcpy");
void* own_memmove(void* to, const void* from, size_t bytes) __asm__("seemalloc_memmove");
void* own_memset(void* to, int value, size_t bytes) __asm__("seemalloc_memset");
int own_memcmp(const void* a, const void* b, size_t bytes) __asm__("seemalloc_memcmp");
size_t own_strlen(const char* s) __asm__("seemalloc_strlen");
}

namespace {

// Around the lengths at which the functions change their method.
const size_t kLengths[] = {0,  1,  2,  3,  4,  5,  7,  8,   9,   15,   16,   17,   31,  32,
                           33, 47, 48, 49, 63, 64, 65, 100, 255, 1023, 1024, 1025, 5000};
constexpr size_t kMargin = 64;

std::string noise(size_t length) {
  std::string text(length, 0);
  for (size_t i = 0; i < length; i++) text[i] = static_cast<char>(i * 131 + i / 251 + 1);
  return text;
}

// Byte by byte. The compiler must not turn it into a call.
void copy_as_expected(char* to, const char* from, size_t bytes) {
  std::string copy(from, from + bytes);
  for (size_t i = 0; i < bytes; i++) const_cast<volatile char*>(to)[i] = copy[i];
}

TEST(OwnMemory, MovesBetweenOverlappingRangesOfAnyDistance) {
  for (size_t length : kLengths) {
    for (size_t distance : {size_t{0}, size_t{1}, size_t{7}, size_t{16}, size_t{33}, length}) {
      for (bool up : {false, true}) {
        std::string ours = noise(2 * length + 2 * kMargin), expected = ours;
        size_t low = kMargin, high = kMargin + (distance < length ? distance : length);
        size_t to = up ? high : low, from = up ? low : high;
        EXPECT_EQ(own_memmove(ours.data() + to, ours.data() + from, length), ours.data() + to);
        copy_as_expected(expected.data() + to, expected.data() + from, length);
        ASSERT_TRUE(ours == expected) << length << " bytes, distance " << distance;
      }
    }
  }
}

TEST(OwnMemory, CopiesAndSetsTheseBytesAndNoOthers) {
  for (size_t length : kLengths) {
    for (size_t offset = 0; offset < 17; offset++) {
      std::string source = noise(length + kMargin);
      std::string ours(length + 2 * kMargin, 'x'), expected = ours;
      char* to = ours.data() + offset;
      EXPECT_EQ(own_memcpy(to, source.data() + 3, length), to);
      copy_as_expected(expected.data() + offset, source.data() + 3, length);
      ASSERT_TRUE(ours == expected) << length << " bytes at " << offset;
      EXPECT_EQ(own_memset(to, 0x1A5, length), to);
      for (size_t i = 0; i < length; i++)
        const_cast<volatile char*>(expected.data())[offset + i] = static_cast<char>(0xA5);
      ASSERT_TRUE(ours == expected) << length << " bytes at " << offset;
    }
  }
}

TEST(OwnMemory, ComparesUpToTheFirstDifference) {
  for (size_t length : kLengths) {
    std::string a = noise(length + 1), b = a;
    b[length] = static_cast<char>(a[length] + 1);
    EXPECT_EQ(own_memcmp(a.data(), b.data(), length), 0);
    for (size_t at : {size_t{0}, length / 2, length - 1}) {
      if (at >= length) continue;
      a[at] = '\x7F', b[at] = '\x80';  // bytes are compared as unsigned
      EXPECT_LT(own_memcmp(a.data(), b.data(), length), 0) << length << " bytes, " << at;
      EXPECT_GT(own_memcmp(b.data(), a.data(), length), 0) << length << " bytes, " << at;
      a[at] = b[at] = 1;
    }
  }
}

TEST(OwnMemory, CountsUpToTheNull) {
  for (size_t length : kLengths) EXPECT_EQ(own_strlen(std::string(length, 'x').c_str()), length);
}

}  // namespace

#endif

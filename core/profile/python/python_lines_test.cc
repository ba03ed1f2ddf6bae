#include "core/profile/python/python_lines.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "core/base/seed_for_test.h"

namespace seemalloc::profile {
namespace {

std::string bytes_of(const char* hex) {
  std::string bytes;
  for (; *hex != 0; hex += 2)
    bytes.push_back(static_cast<char>(std::stoi(std::string(hex, 2), nullptr, 16)));
  return bytes;
}

uint32_t line_of(const std::string& table, int32_t first_line, uint64_t unit) {
  PythonLineDecoder decoder(first_line, unit);
  for (char byte : table) {
    if (decoder.feed(static_cast<uint8_t>(byte))) break;
  }
  return decoder.line();
}

// Data from CPython's own co_linetable and co_lines(): the ends of ranges, in code units, and their
// lines. Instructions without a line have that of the preceding instruction.
struct Range {
  uint64_t end;
  uint32_t line;
};
void expect_lines(const char* hex, int32_t first_line, const std::vector<Range>& ranges) {
  std::string table = bytes_of(hex);
  uint64_t unit = 0;
  for (const Range& range : ranges) {
    for (; unit < range.end; unit++)
      EXPECT_EQ(line_of(table, first_line, unit), range.line) << hex << " unit " << unit;
  }
}

TEST(PythonLines, AreThoseOfPython311) {
  // def f(): x = [1,⏎ 2]⏎ return (lambda: x)
  expect_lines("f88000d8090ad8090af00301090c8041e00c15884988498849d00416", 1,
               {{2, 1}, {3, 2}, {4, 3}, {6, 2}, {11, 4}});
  // def g(a): for …: if a: yield i
  expect_lines(
      "e800e8008000dd0d12903189588c58f000020514f0000205148801d80b0cf000010914d81213884788478847f8f005020514f000020514",
      5, {{3, 5}, {20, 6}, {22, 7}, {26, 8}, {27, 8}, {29, 6}});
}

TEST(PythonLines, AreThoseOfPython313) {
  expect_lines("f88000d8090ad8090af00301090c8041e40c15d00416", 1,
               {{2, 1}, {3, 2}, {4, 3}, {6, 2}, {12, 4}});
  expect_lines("e9008000dc0d1290318e588801df0b0c8831d812138c47f205000e16f9", 5,
               {{3, 5}, {17, 6}, {26, 7}, {32, 8}, {37, 6}});
}

// Writes the numbers of an entry like the compiler.
void add_varint(std::string& table, uint64_t n) {
  for (; n >= 64; n >>= 6) table.push_back(static_cast<char>(n & 63) | 64);
  table.push_back(static_cast<char>(n));
}
void add_svarint(std::string& table, int64_t n) {
  add_varint(table, n < 0 ? static_cast<uint64_t>(-n) << 1 | 1 : static_cast<uint64_t>(n) << 1);
}

TEST(PythonLines, AgreeWithAModelOnAllKindsOfEntries) {
  unsigned seed = seed_for_test();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  auto upto = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n + 1)); };
  for (int round = 0; round < 200; round++) {
    int32_t first = 1 + upto(100000), line = first;
    std::string table;
    std::vector<uint32_t> lines;
    for (int n = upto(40) + 1; n > 0; n--) {
      int kind = upto(15), units = 1 + upto(7), delta = 0;
      table.push_back(static_cast<char>(0x80 | kind << 3 | (units - 1)));
      if (kind < 10) table.push_back(static_cast<char>(upto(127)));
      if (kind >= 10 && kind <= 12) {
        delta = kind - 10;
        for (int columns = 0; columns < 2; columns++) table.push_back(static_cast<char>(upto(127)));
      }
      if (kind == 13 || kind == 14) {
        delta = upto(1) != 0 ? upto(5) - line : upto(70000);
        add_svarint(table, delta);
      }
      if (kind == 14) {
        for (int number = 0; number < 3; number++) add_varint(table, random() % 5000);
      }
      line += delta;
      lines.insert(lines.end(), static_cast<size_t>(units), static_cast<uint32_t>(line));
    }
    for (size_t unit = 0; unit < lines.size(); unit++) {
      ASSERT_EQ(line_of(table, first, unit), lines[unit]) << "round " << round << " unit " << unit;
    }
    // Past the end: the last line.
    EXPECT_EQ(line_of(table, first, lines.size() + 5), lines.back());
  }
}

TEST(PythonLines, TerminateOnAnyBytes) {
  std::mt19937 random(seed_for_test());
  for (int round = 0; round < 20000; round++) {
    std::string table;
    for (size_t n = random() % 60; n > 0; n--) table.push_back(static_cast<char>(random()));
    EXPECT_LE(line_of(table, static_cast<int32_t>(random()), random() % 100), uint32_t{INT32_MAX});
  }
  EXPECT_EQ(line_of("", 7, 0), 7u);
  EXPECT_EQ(line_of("", -7, 0), 0u);
}

}  // namespace
}  // namespace seemalloc::profile

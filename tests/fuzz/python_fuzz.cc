// What is read of CPython's objects: the table of lines, against a second decoder, and texts, which
// become valid UTF-8 of limited length.
//
// Input: the table, which is also the characters of the text; the last bytes choose the rest.
#include <string.h>

#include <memory>
#include <string>
#include <vector>

#include "core/profile/python/python_lines.h"
#include "core/profile/python/python_text.h"
#include "tests/fuzz/fuzz.h"

namespace seemalloc::profile {
namespace {

// Objects/locations.md, entry by entry: the line of code unit `unit`.
uint32_t line_of(const std::string& table, int32_t first_line, uint64_t unit) {
  int64_t line = first_line, shown = first_line;
  uint64_t units = 0;
  size_t at = 0;
  // An entry begins with a byte that has the highest bit.
  while (at < table.size() && (table[at] & 0x80) == 0) at++;
  while (at < table.size()) {
    auto head = static_cast<uint8_t>(table[at++]);
    unsigned kind = head >> 3 & 15;
    int64_t delta = kind >= 10 && kind <= 12 ? kind - 10 : 0;
    std::string rest;
    while (at < table.size() && (table[at] & 0x80) == 0) rest += table[at++];
    if (kind == 13 || kind == 14) {
      uint64_t number = 0;
      bool whole = false;
      for (size_t i = 0; i < rest.size() && !whole; i++) {
        if (i <= 5) number |= static_cast<uint64_t>(rest[i] & 0x3F) << 6 * i;
        whole = (rest[i] & 0x40) == 0;
      }
      if (whole)
        delta = (number & 1) != 0 ? -static_cast<int64_t>(number >> 1)
                                  : static_cast<int64_t>(number >> 1);
    }
    line += delta;
    shown = line;
    units += (head & 7u) + 1;
    if (unit < units) break;
  }
  return shown > 0 && shown <= INT32_MAX ? static_cast<uint32_t>(shown) : 0;
}

void check_lines(const std::string& table, int32_t first_line, uint64_t unit) {
  PythonLineDecoder decoder(first_line, unit);
  for (char byte : table) {
    if (decoder.feed(static_cast<uint8_t>(byte))) break;
  }
  CHECK(decoder.line() == line_of(table, first_line, unit));
}

bool is_utf8(const char* text, size_t bytes) {
  for (size_t i = 0; i < bytes;) {
    auto first = static_cast<uint8_t>(text[i++]);
    size_t more = first < 0x80                    ? 0
                  : first >= 0xC2 && first < 0xE0 ? 1
                  : first >= 0xE0 && first < 0xF0 ? 2
                  : first >= 0xF0 && first < 0xF5 ? 3
                                                  : 9;
    if (more > bytes - i) return false;
    for (; more != 0; more--) {
      if ((static_cast<uint8_t>(text[i++]) & 0xC0) != 0x80) return false;
    }
  }
  return true;
}

void check_text(const std::string& characters, FuzzedDataProvider& input) {
  PythonLayout layout = *python_layout(11);
  Python python{};
  python.layout = &layout;
  const unsigned widths[] = {1, 2, 4};
  unsigned width = input.PickValueInArray(widths);
  PythonTextHeader head{};
  bool ascii = width == 1 && input.ConsumeBool();
  head.length = static_cast<int64_t>(characters.size() / width);
  head.state = width << 2 | 1u << 5 | (ascii ? 1u << 6 : 0);
  CHECK(head.character_bytes() == width && head.is_ascii() == ascii && head.is_valid(python));
  size_t start = ascii ? layout.ascii_bytes : layout.compact_bytes;
  std::unique_ptr<char[]> object(new char[start + characters.size()]);
  characters.copy(object.get() + start, characters.size());
  size_t capacity = input.ConsumeIntegralInRange<size_t>(8, 512);
  std::unique_ptr<char[]> out(new char[capacity]);  // exactly as long: writes beyond are found
  bool end = input.ConsumeBool();
  size_t written = read_python_text(python, reinterpret_cast<uintptr_t>(object.get()), head, end,
                                    out.get(), capacity);
  CHECK(written <= capacity);
  // Characters of an ASCII text are not checked: with the highest bit set they are another text's.
  CHECK(ascii || is_utf8(out.get(), written));
}

}  // namespace
}  // namespace seemalloc::profile

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace seemalloc::profile;
  FuzzedDataProvider input(data, size);
  std::string bytes = input.ConsumeRandomLengthString(1000);
  check_lines(bytes, input.ConsumeIntegralInRange<int32_t>(0, 1000),
              input.ConsumeIntegralInRange<uint64_t>(0, 200));
  check_text(bytes, input);
  return 0;
}

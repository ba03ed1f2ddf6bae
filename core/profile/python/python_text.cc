#include "core/profile/python/python_text.h"

#include <cstring>

#include "core/os/kernel/read_memory.h"

namespace seemalloc::profile {

namespace {

// Writes a code point as UTF-8 to `out`. Returns the number of bytes.
size_t encode(uint32_t c, char* out) {
  bool is_character = c <= 0x10FFFF && (c < 0xD800 || c > 0xDFFF);
  if (!is_character) c = 0xFFFD;
  if (c < 0x20 || c == 0x7F) c = '?';
  if (c < 0x80) {
    out[0] = static_cast<char>(c);
    return 1;
  }
  size_t bytes = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
  constexpr unsigned kFirst[] = {0, 0, 0xC0, 0xE0, 0xF0};
  for (size_t i = bytes - 1; i > 0; i--, c >>= 6) out[i] = static_cast<char>(0x80 | (c & 0x3F));
  out[0] = static_cast<char>(kFirst[bytes] | c);
  return bytes;
}

uint32_t character_at(const char* raw, unsigned width) {
  uint32_t c = 0;
  memcpy(&c, raw, width);  // all supported machines are little-endian
  return c;
}

constexpr char kCut[] = "\xE2\x80\xA6";  // …
constexpr size_t kCutBytes = sizeof(kCut) - 1;
constexpr size_t kMaxCharacterBytes = 4;

}  // namespace

size_t read_python_text(const Python& python, uintptr_t address, const PythonTextHeader& head,
                        bool end, char* out, size_t capacity) {
  const PythonLayout& layout = *python.layout;
  unsigned width = head.character_bytes();
  uintptr_t data = address + (head.is_ascii() ? layout.ascii_bytes : layout.compact_bytes);
  auto length = static_cast<size_t>(head.length);
  // The number of characters that fit, if the head is correct.
  size_t room = capacity - kCutBytes, fits = head.is_ascii() ? room : room / kMaxCharacterBytes;
  bool cut = length > fits;
  size_t first = cut && end ? length - fits : 0, count = cut ? fits : length, written = 0;
  if (cut && end) memcpy(out, kCut, written = kCutBytes);
  for (size_t done = 0; done < count;) {
    char raw[64];
    size_t some = sizeof(raw) / width < count - done ? sizeof(raw) / width : count - done;
    if (!os::read_memory(reinterpret_cast<const void*>(data + (first + done) * width), raw,
                         some * width))
      return SIZE_MAX;
    for (size_t i = 0; i < some; i++) {
      char bytes[kMaxCharacterBytes];
      size_t more = encode(character_at(raw + i * width, width), bytes);
      if (written + more > capacity - kCutBytes + (end ? kCutBytes : 0)) return written;
      memcpy(out + written, bytes, more);
      written += more;
    }
    done += some;
  }
  if (cut && !end) {
    memcpy(out + written, kCut, kCutBytes);
    written += kCutBytes;
  }
  return written;
}

}  // namespace seemalloc::profile

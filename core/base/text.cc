#include "core/base/text.h"

namespace seemalloc {

size_t text_length(const char* s) {
  size_t n = 0;
  while (s[n] != 0) n++;
  return n;
}

bool text_equal(const char* a, const char* b) {
  while (*a != 0 && *a == *b) a++, b++;
  return *a == *b;
}

bool text_contains(const char* s, char c) {
  while (*s != 0 && *s != c) s++;
  return *s == c;
}

bool text_equal(const char* a, size_t length, const char* b) {
  for (size_t i = 0; i < length; i++) {
    if (b[i] == 0 || a[i] != b[i]) return false;
  }
  return b[length] == 0;
}

Text& Text::append(const char* s, size_t length) {
  for (size_t i = 0; i < length; i++) {
    if (size_ + 1 >= capacity_) {
      truncated_ = true;
      break;
    }
    buffer_[size_++] = s[i];
  }
  buffer_[size_] = 0;
  return *this;
}

void Text::end_line() {
  if (size_ + 1 >= capacity_) size_--;
  *this << '\n';
}

Text& Text::operator<<(const char* s) { return append(s, text_length(s)); }
Text& Text::operator<<(char c) { return append(&c, 1); }

Text& Text::operator<<(uint64_t n) {
  char digits[20];
  size_t at = sizeof(digits);
  do {
    digits[--at] = static_cast<char>('0' + n % 10);
    n /= 10;
  } while (n != 0);
  return append(digits + at, sizeof(digits) - at);
}

Text& Text::operator<<(int64_t n) {
  if (n < 0) {
    *this << '-';
    return *this << (uint64_t{0} - static_cast<uint64_t>(n));
  }
  return *this << static_cast<uint64_t>(n);
}

Text& Text::operator<<(Hex h) {
  char digits[16];
  size_t at = sizeof(digits);
  uint64_t n = h.value;
  do {
    digits[--at] = "0123456789abcdef"[n & 15];
    n >>= 4;
  } while (n != 0);
  append("0x", 2);
  return append(digits + at, sizeof(digits) - at);
}

}  // namespace seemalloc

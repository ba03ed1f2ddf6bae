// Text formatting without malloc, stdio or locale: appends to a fixed buffer and truncates silently
// at its end (see truncated()).
//
// Threads: one writer. The text is always NUL-terminated.
#pragma once

#include <cstddef>
#include <cstdint>

namespace seemalloc {

struct Hex {
  uint64_t value;
};

class Text {
 public:
  // Requires: capacity ≥ 1. The buffer must outlive this.
  Text(char* buffer, size_t capacity) : buffer_(buffer), capacity_(capacity) { buffer_[0] = 0; }

  Text& operator<<(const char* s);
  Text& operator<<(char c);
  Text& operator<<(uint64_t n);
  Text& operator<<(int64_t n);
  Text& operator<<(int n) { return *this << static_cast<int64_t>(n); }
  Text& operator<<(unsigned n) { return *this << static_cast<uint64_t>(n); }
  Text& operator<<(Hex h);
  Text& append(const char* s, size_t length);
  // Appends a newline; replaces the last character if the buffer is full.
  void end_line();

  const char* c_str() const { return buffer_; }
  size_t size() const { return size_; }
  bool truncated() const { return truncated_; }
  void clear() { size_ = 0, truncated_ = false, buffer_[0] = 0; }

 private:
  char* buffer_;
  size_t capacity_;
  size_t size_ = 0;
  bool truncated_ = false;
};

// A Text with its buffer inside.
template <size_t kCapacity>
class FixedText : public Text {
 public:
  FixedText() : Text(storage_, kCapacity) {}

 private:
  char storage_[kCapacity];
};

// For plain C strings. The C library's functions may be ifuncs that are not resolved yet when
// malloc is first called, and the program may have replaced them.
size_t text_length(const char* s);
bool text_equal(const char* a, const char* b);
bool text_contains(const char* s, char c);
// True when the `length` bytes at `a` equal `b`.
bool text_equal(const char* a, size_t length, const char* b);

}  // namespace seemalloc

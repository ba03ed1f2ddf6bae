// ProtoWriter: writes protocol buffer messages: varints and length-delimited fields, as needed for
// profile.proto.
//
// begin(field) … end() may be nested; end() inserts the length before the body. Threads: one.
// If memory is refused, all output is dropped and failed() returns true; a partial message never
// counts as written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "core/base/check.h"
#include "core/profile/sampling/grow_array.h"

namespace seemalloc::profile {

class ProtoWriter {
 public:
  // A field of type (u)int64, bool or enum. Zero is the default and is omitted.
  void number(unsigned field, uint64_t value) {
    if (value == 0) return;
    varint(field << 3 | kVarint);
    varint(value);
  }
  // A field of type string, bytes or a message already encoded.
  void text(unsigned field, const char* data, size_t bytes) {
    varint(field << 3 | kDelimited);
    varint(bytes);
    append(data, bytes);
  }
  // A nested message or a packed list; inside a packed list only varint() is used.
  void begin(unsigned field) {
    DCHECK(depth_ < kMaxDepth);
    varint(field << 3 | kDelimited);
    bytes_.push(0);  // the length, if it fits into one byte
    starts_[depth_++] = bytes_.size();
  }
  void end() {
    DCHECK(depth_ > 0);
    size_t start = starts_[--depth_];
    if (bytes_.failed()) return;
    size_t length = bytes_.size() - start;
    char encoded[kMaxVarint];
    size_t width = encode(length, encoded);
    if (width > 1) {
      if (!bytes_.reserve(bytes_.size() + width - 1)) return;
      memmove(bytes_.data() + start + width - 1, bytes_.data() + start, length);
      bytes_.set_size(bytes_.size() + width - 1);
    }
    memcpy(bytes_.data() + start - 1, encoded, width);
  }
  void varint(uint64_t value) {
    char encoded[kMaxVarint];
    append(encoded, encode(value, encoded));
  }

  bool failed() const { return bytes_.failed(); }
  GrowArray<char>& bytes() { return bytes_; }

 private:
  static constexpr unsigned kVarint = 0;
  static constexpr unsigned kDelimited = 2;
  static constexpr size_t kMaxVarint = 10;
  static constexpr int kMaxDepth = 4;

  static size_t encode(uint64_t value, char* out) {
    size_t width = 0;
    for (; value >= 0x80; value >>= 7) out[width++] = static_cast<char>(value | 0x80);
    out[width++] = static_cast<char>(value);
    return width;
  }
  void append(const char* data, size_t bytes) {
    if (!bytes_.reserve(bytes_.size() + bytes)) return;
    memcpy(bytes_.data() + bytes_.size(), data, bytes);
    bytes_.set_size(bytes_.size() + bytes);
  }

  GrowArray<char> bytes_;
  size_t starts_[kMaxDepth] = {};
  int depth_ = 0;
};

}  // namespace seemalloc::profile

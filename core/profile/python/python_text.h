// Converts a Python str to UTF-8, from a copy of its header and reads of its characters that do not
// fault (os::read_memory).
//
// Called when a function is found for the first time; also in signal handlers. Threads: any; it has
// no state. No lock, no allocation.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/profile/python/python.h"

namespace seemalloc::profile {

// The header of every str (CPython's PyASCIIObject); the same in all known versions.
struct PythonTextHeader {
  uint64_t references;
  uint64_t type;
  int64_t length;
  int64_t hash;  // -1: not computed yet
  uint32_t state;
  uint32_t padding;

  unsigned character_bytes() const { return state >> 2 & 7; }
  bool is_compact() const { return (state >> 5 & 1) != 0; }
  bool is_ascii() const { return (state >> 6 & 1) != 0; }
  // Whether it can be a str. Forms that names in code objects never have are rejected.
  bool is_valid(const Python& python) const {
    unsigned bytes = character_bytes();
    constexpr int64_t kMaxLength = 1 << 20;
    return type == python.text_type && length >= 0 && length <= kMaxLength && is_compact() &&
           (bytes == 1 || (!is_ascii() && (bytes == 2 || bytes == 4)));
  }
};
static_assert(sizeof(PythonTextHeader) == 40);

// Writes the text of the str at `address`, at most `capacity` bytes: its start, or its end if `end`
// is true. A cut is marked by "…". Invalid characters become U+FFFD, control characters question
// marks. Returns the number of bytes, or SIZE_MAX if the text cannot be read.
size_t read_python_text(const Python& python, uintptr_t address, const PythonTextHeader& head,
                        bool end, char* out, size_t capacity);

}  // namespace seemalloc::profile

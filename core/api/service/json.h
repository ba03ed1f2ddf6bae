// JSON objects and arrays, written directly into a Text. Strings are our own constants: nothing is
// escaped, except by append_escaped().
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/base/text.h"

namespace seemalloc {

// A string of the program, UTF-8 without control characters, to be put between quotation marks: at
// most twice the bytes.
inline Text& append_escaped(Text& out, const char* text, size_t bytes) {
  for (size_t i = 0; i < bytes; i++) {
    if (text[i] == '"' || text[i] == '\\') out << '\\';
    out << text[i];
  }
  return out;
}

// {"a":1,"b":2} in the order given.
class JsonObject {
 public:
  explicit JsonObject(Text& out) : out_(out) { out_ << '{'; }
  ~JsonObject() { out_ << '}'; }
  JsonObject& put(const char* name, uint64_t value) {
    key(name);
    out_ << value;
    return *this;
  }
  JsonObject& put(const char* name, const char* value) {
    key(name);
    out_ << '"' << value << '"';
    return *this;
  }
  Text& key(const char* name) {
    if (!first_) out_ << ',';
    first_ = false;
    return out_ << '"' << name << "\":";
  }

 private:
  Text& out_;
  bool first_ = true;
};

// [a,b]: each element is written to the Text that next() returns.
class JsonArray {
 public:
  explicit JsonArray(Text& out) : out_(out) { out_ << '['; }
  ~JsonArray() { out_ << ']'; }
  Text& next() {
    if (!first_) out_ << ',';
    first_ = false;
    return out_;
  }

 private:
  Text& out_;
  bool first_ = true;
};

}  // namespace seemalloc

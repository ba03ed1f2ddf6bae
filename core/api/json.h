// JSON objects and arrays, written into a Text as they come. Strings are our own words: nothing is escaped, but by append_escaped().
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/base/text.h"

namespace seemalloc {

// The program's words, UTF-8 without control characters, for between quotation marks: at most twice the bytes.
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

// [a,b]: each element is written to what next() returns.
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

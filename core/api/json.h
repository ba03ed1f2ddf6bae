// JSON objects and arrays, written into a Text as they come. Strings are our own words: nothing is escaped.
#pragma once

#include <cstdint>

#include "core/base/text.h"

namespace seemalloc {

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

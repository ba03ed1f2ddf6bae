// OptionForTest: gives an option a value for the duration of a scope. For tests.
#pragma once

#include "core/base/check.h"
#include "core/base/options.h"
#include "core/base/text.h"

namespace seemalloc::options {

class OptionForTest {
 public:
  OptionForTest(Id id, const char* value) : id_(id) {
    print(id, before_);
    choose(value);
  }
  ~OptionForTest() { choose(before_.c_str()); }
  OptionForTest(const OptionForTest&) = delete;
  OptionForTest& operator=(const OptionForTest&) = delete;

 private:
  void choose(const char* value) {
    FixedText<256> problem;
    CHECK(set(id_, value, text_length(value), problem));
  }

  Id id_;
  FixedText<kMaxTextBytes> before_;
};

}  // namespace seemalloc::options

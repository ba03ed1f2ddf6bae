// OptionForAllTests: gives an option a value for all tests of a program. For a single scope use
// OptionForTest.
#pragma once

#include <gtest/gtest.h>

#include "core/base/options.h"
#include "core/base/text.h"

namespace seemalloc::options {

class OptionForAllTests : public testing::Environment {
 public:
  OptionForAllTests(Id id, const char* value) : id_(id), value_(value) {}

 private:
  void SetUp() override {
    FixedText<64> problem;
    ASSERT_TRUE(set(id_, value_, text_length(value_), problem));
  }

  Id id_;
  const char* value_;
};

}  // namespace seemalloc::options

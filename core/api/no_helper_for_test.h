// For tests of what the helper would change, or read, meanwhile: including this, a test runs without one.
#pragma once

#include <gtest/gtest.h>

#include "core/base/options.h"
#include "core/base/text.h"

namespace seemalloc {

class NoHelper : public testing::Environment {
  void SetUp() override {
    FixedText<64> problem;
    ASSERT_TRUE(options::set(options::Id::helper, "0", 1, problem));
  }
};
inline const testing::Environment* const no_helper = testing::AddGlobalTestEnvironment(new NoHelper);

}  // namespace seemalloc

// For tests that the helper thread would disturb: a test that includes this file runs without one.
#pragma once

#include "core/base/option_of_all_for_test.h"

namespace seemalloc {
inline const testing::Environment* const no_helper =
    testing::AddGlobalTestEnvironment(new options::OptionOfAll(options::Id::helper, "0"));
}  // namespace seemalloc

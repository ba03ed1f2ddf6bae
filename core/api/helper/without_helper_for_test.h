// For tests that the helper thread would disturb: a test that includes this file runs without one.
#pragma once

#include "core/base/option_for_all_tests.h"

namespace seemalloc {
inline const testing::Environment* const no_helper =
    testing::AddGlobalTestEnvironment(new options::OptionForAllTests(options::Id::helper, "0"));
}  // namespace seemalloc

// For tests of where blocks lie, or whose they are: including this, a test runs without samples, whose spans are nobody's.
#pragma once

#include "core/base/option_of_all_for_test.h"

namespace seemalloc {
inline const testing::Environment* const no_samples =
    testing::AddGlobalTestEnvironment(new options::OptionOfAll(options::Id::sample, "0"));
}  // namespace seemalloc

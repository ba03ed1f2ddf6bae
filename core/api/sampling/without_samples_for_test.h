// For tests of the positions or owners of blocks: a test that includes this file runs without
// samples, whose spans have no owner.
#pragma once

#include "core/base/option_for_all_tests.h"

namespace seemalloc {
inline const testing::Environment* const no_samples =
    testing::AddGlobalTestEnvironment(new options::OptionForAllTests(options::Id::sample, "0"));
}  // namespace seemalloc

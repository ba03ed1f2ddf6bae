// For tests of the positions or owners of blocks: a test that includes this file runs without
// samples, whose spans have no owner.
#pragma once

#include "core/base/option_of_all_for_test.h"

namespace seemalloc {
inline const testing::Environment* const no_samples =
    testing::AddGlobalTestEnvironment(new options::OptionOfAll(options::Id::sample, "0"));
}  // namespace seemalloc

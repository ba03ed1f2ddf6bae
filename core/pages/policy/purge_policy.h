// Purge policy: the mode, the delay and the cost limit of purging, for all code that returns memory
// to the OS.
// purge.h explains them.
// Threads: any; atomic.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/base/compiler.h"
#include "core/base/options.h"
#include "core/pages/policy/purge_budget.h"

namespace seemalloc::pages {

// The cost limit of purging, including holes in spans.
extern constinit PurgeBudget purge_budget SEEMALLOC_HIDDEN;

// The mode set by the options: balanced, eager or never. A delay of 0 means eager.
options::Purge purge_mode();
// How long freed memory is kept at present. In mode never: the delay that would apply.
uint64_t purge_delay_ns();

// A window of refaults has ended: adapts the delay, unless the user has set one (purge_delay.h).
void tune_purge_delay(size_t purged_bytes, size_t refaulted_bytes, uint64_t cpu_ns);

}  // namespace seemalloc::pages

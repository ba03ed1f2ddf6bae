// Purge: decides what free memory goes back to the system, when, and at what cost. How it goes: sweep.h, huge.h.
//
// A page that is freed is young; at the end of a period (half a delay) what is young becomes old, and what is old is due. What is due
// is given back, large ranges first, within the budget (purge_budget.h); what is left waits for the next tick. The delay
// follows from what is wanted again (refaults.h, purge_delay.h), unless the user has chosen one. Free memory beyond a share
// of what is in use goes at once, and a process with hardly any keeps it while it works. Why so: docs/decisions/0018.
// Exact ranges: the pages freed, each once per free, never a merged neighbour.
// Threads: any, also several at once. Who calls: the helper, and slow paths where there is none or it is late (tick), so that the
// program's threads seldom wait for the kernel; and whoever asks for everything.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/base/compiler.h"
#include "core/base/options.h"
#include "core/os/calls.h"
#include "core/pages/purge_budget.h"

namespace seemalloc::pages {

// What giving memory back may cost, holes in spans included.
extern constinit PurgeBudget purge_budget SEEMALLOC_HIDDEN;

// balanced, eager or never, as the options say; a delay of 0 is eager.
options::Purge purge_mode();
// How long freed memory is kept at present; in the mode never: would be.
uint64_t purge_delay_ns();

// Gives pages that have been free for a while back to the system, when it is time. Cheap when it is not: reads a clock.
// Requires: no lock held (it makes system calls).
void tick(bool by_helper = false);
// How long the helper may sleep; UINT64_MAX when nothing waits to be given back.
uint64_t next_tick_in_ns();
// The helper will tick in so long. Until then, half a delay at most, and a little longer, the ticks of others do nothing.
void helper_ticks_in(uint64_t ns);
// Gives every free page back now, whatever the mode. Returns bytes given back.
size_t purge_all(os::Reason reason = os::Reason::kAsked);
// True when something waits to be given back.
bool anything_dirty();

struct PurgeStatistics {
  uint64_t delay_ns;
  uint64_t purged_bytes;     // by ticks, since the process began
  uint64_t postponed;        // ticks that ended because the budget was spent
};
PurgeStatistics purge_statistics();
// With the locks of all shards held, by fork: what both count is the child's own from here on.
void forget_purges_in_child();

}  // namespace seemalloc::pages

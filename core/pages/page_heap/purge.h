// Purge: decides which free memory is returned to the OS, when, and at which cost. sweep.h and
// huge.h do the work.
//
// A freed page is young. At the end of a period (half a delay) young pages become old, and old
// pages become due. Due pages are purged within the budget (purge_budget.h), large ranges first;
// the rest waits for the next tick. The delay adapts to how much purged memory is soon reused
// (refaults.h, purge_delay.h), unless the user has set one. Free memory beyond a share of the
// memory in use is purged immediately, and a process with hardly any free memory keeps it while it
// works. Reasons: docs/decisions/0018. A purge covers exactly the pages that were freed since they
// were last purged, not the free range that they have been merged into.
// Threads: any, also several at once. Callers: the helper thread;
// slow paths when there is no helper thread or it is late (tick), so that the program's threads
// rarely wait for the kernel; and requests to purge everything.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/os/kernel/calls.h"

namespace seemalloc::pages {

// Purges pages that have been free for a while, if it is time. Otherwise cheap: it reads a clock.
// Requires: no lock held (it makes system calls).
void tick(bool by_helper = false);
// How long the helper thread may sleep; UINT64_MAX when nothing is waiting to be purged.
uint64_t next_tick_in_ns();
// The helper thread will tick within `ns`. Until then (half a delay at most) and a little longer,
// ticks by other threads do nothing.
void announce_helper_tick(uint64_t ns);
// Purges every free page now, whatever the mode. Returns the bytes purged.
size_t purge_all(os::Reason reason = os::Reason::kRequested);
// True when something is waiting to be purged.
bool has_dirty_memory();

struct PurgeStatistics {
  uint64_t delay_ns;
  uint64_t purged_bytes;  // by ticks, since the process started
  uint64_t postponed;     // ticks that ended because the budget was spent
};
PurgeStatistics purge_statistics();
// Called by fork with the locks of all shards held: from here on both counters are the child's own.
void reset_purge_counters_in_child();

}  // namespace seemalloc::pages

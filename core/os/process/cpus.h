// The number of CPUs.
// Does not touch errno, allocate or lock. Threads: any, at any time, including signal handlers.
#pragma once

namespace seemalloc::os {

// The number of CPUs that this process may use: its affinity mask, or fewer if its cgroup grants
// less time. At least 1. Reads files.
unsigned cpu_count();

}  // namespace seemalloc::os

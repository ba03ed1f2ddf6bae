// Housekeeping: periodic work for all threads. It purges unused memory and empties the heaps of
// exited threads.
//
// Callers: slow paths (a free that empties a span, a large free), the helper thread. Threads: any,
// except while a thread walks all lists (walk_gate.h).
#pragma once

namespace seemalloc::heap {

// When it is due, releases the large spans that idle threads keep and purges pages that have been
// free for a while. Cheap when it is not due: reads a clock. Requires: no lock held (it makes
// system calls).
void tick(bool by_helper = false);

}  // namespace seemalloc::heap

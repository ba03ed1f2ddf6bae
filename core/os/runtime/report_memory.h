// Memory for reports: profiles, statistics, and the tables from which they are made. Never malloc.
//
// Each piece is a mapping. If the kernel refuses another mapping (vm.max_map_count), because the
// program has used them up, pieces come from a reserve: regions of the heap's window, whose last
// mapping can grow. So a report can be written in the process that needs it most. The reserve is
// kept; its pages are returned to the OS when no piece of a region is in use.
// Threads: any, but no signal handlers. A spin lock is held for a few instructions and a purge; in
// a forked child it is free again, and pieces of the parent's other threads stay in use for ever.
// Invariant: `used` of a region is 0, or the region has a piece in use, or its purge was refused.
// The stores are ordered so that a fork in between loses memory at most.
#pragma once

#include <cstddef>

namespace seemalloc::os {

// Zeroed, whole OS pages. Returns null when refused.
void* map_report(size_t bytes);
// Frees such memory, or a mapping made by os::map.
void unmap_report(void* memory, size_t bytes);
// Grows such memory, in place or not. Returns null when refused; nothing has changed then.
void* grow_report(void* memory, size_t old_bytes, size_t new_bytes);
// Called in a forked child.
void reset_report_memory_in_child();

}  // namespace seemalloc::os

// MemoryReport: the process's resident memory by use. Computed from the heap's statistics and, on
// request, from the kernel's report of resident pages. Callers: statistics, the fragmentation
// profile. Threads: any; no lock held.
#pragma once

#include <cstddef>

#include "core/heap/reports/statistics.h"

namespace seemalloc {

// All resident memory, by use: rss = live + cached + fragmentation + metadata + not_ours.
struct MemoryReport {
  size_t rss;
  size_t live;  // the resident part of live blocks
  // Free blocks in threads' lists, spans without a live block, free pages not yet returned to the
  // OS.
  size_t cached;
  size_t fragmentation;  // free blocks and uncarved ends of spans that contain live blocks
  size_t metadata;
  size_t not_ours;
  size_t live_allocated;  // live blocks, touched or not
  size_t mapped;
  // The part of cached that is free pages; without residency: free pages that have not been
  // returned to the OS.
  size_t dirty;
  size_t unused;  // the part of cached that contains no block, but is on huge pages
  // live, cached, fragmentation and not_ours are each within this many bytes of the truth
  // (heap/reports/residency.h; three standard errors). 0: exact, if the program is idle.
  size_t uncertain;
  // false: the kernel refuses to report residency (mincore), so memory that may be resident counts
  // as resident.
  bool kernel_answered;
};

// Asks the kernel which of our pages are resident if `with_residency`: 2 to 10 µs per region, up to
// 4,096 of them.
MemoryReport memory_report(const heap::Statistics& statistics, bool with_residency);

}  // namespace seemalloc

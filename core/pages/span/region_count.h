// The number of regions. Written by page_heap.cc, which maps and unmaps regions.
// Threads: any; relaxed atomics.
#pragma once

namespace seemalloc::pages {

// The current number of regions: one relaxed load.
unsigned region_count();
// The highest number of regions at once.
unsigned max_region_count();

void count_mapped_region();
void count_unmapped_region();

}  // namespace seemalloc::pages

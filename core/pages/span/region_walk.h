// RegionWalk: a walk over all regions that releases the locks: between two regions other threads
// can allocate, free and purge.
//
// Callers: the heap map (heap/reports/heap_map.h), for_each_span (statistics, fragmentation).
// Threads: any, each with its own walk. Regions added meanwhile may be missed; a region that is
// unmapped is skipped. Cost: a lock and a region's cache lines for each region.
#pragma once

#include "core/pages/span/region.h"

namespace seemalloc::pages {

class RegionWalk {
 public:
  RegionWalk() = default;
  ~RegionWalk();
  RegionWalk(const RegionWalk&) = delete;
  RegionWalk& operator=(const RegionWalk&) = delete;

  // Calls f(context, region) for the next region, under the lock of its shard: f must not allocate
  // or free pages, nor make a system call. Returns false when there are no more regions.
  bool next(void (*f)(void* context, const Region& region), void* context);

 private:
  unsigned shard_ = 0;
  bool inside_ = false;  // the cursor is registered with the shard
  RegionCursor cursor_;
};

}  // namespace seemalloc::pages

// A walk over all regions that lets the locks go: between two regions others allocate, free and purge as they like.
//
// Who walks: the heap map (heap/heap_map.h), for_each_span (statistics, fragmentation). Threads: any, each with a walk of its own. Regions that come meanwhile may be passed over;
// one that goes is stepped over. Cost: a lock and a region's cache lines for each.
#pragma once

#include "core/pages/region.h"

namespace seemalloc::pages {

// Where a walk goes on. In it, known to the shard, both under the shard's lock.
struct RegionCursor {
  Region* at = nullptr;
  RegionCursor* next = nullptr;
};

class RegionWalk {
 public:
  RegionWalk() = default;
  ~RegionWalk();
  RegionWalk(const RegionWalk&) = delete;
  RegionWalk& operator=(const RegionWalk&) = delete;

  // Calls f(context, region) for the next one, under the lock of its shard: f must not allocate or free pages, nor make a system
  // call. False when there is none any more.
  bool next(void (*f)(void* context, const Region& region), void* context);

 private:
  unsigned shard_ = 0;
  bool inside_ = false;  // the cursor is known to the shard
  RegionCursor cursor_;
};

}  // namespace seemalloc::pages

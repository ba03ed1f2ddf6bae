// Refaults: counts memory that was purged and soon allocated again, and that should rather have
// been kept.
//
// Windows are as long as the purge delay. Memory that was purged in this window or the one before
// and is allocated again is a refault; regions are counted page by page, huge memory by its sum.
// Two kinds of memory are counted separately, because their refaults do not depend on the delay:
// memory purged on request or under memory pressure, and huge memory unmapped as soon as it was
// freed (UnmapMisses).
// Callers: the purge (memory purged, end of a window); the page heap and huge memory (memory
// allocated).
// Threads: any; the functions that take a region need its shard's lock, the rest is atomic.
#pragma once

#include <cstddef>
#include <cstdint>

namespace seemalloc::pages {

struct Region;
struct Shard;

// With the shard's lock held:
// `at_once`: the purge did not depend on the delay.
void note_purged(Region* region, unsigned first, unsigned pages, bool at_once);
void note_refaults(Shard& shard, Region* region, unsigned first, unsigned pages);

void note_huge_purged(size_t bytes);
// This many bytes of huge memory have been mapped. `purged_on_request`: memory that left the cache
// before its delay would have served the request.
void note_huge_mapped(size_t bytes, bool purged_on_request);

// Ends a window and begins the next one. If no further window begins by `stale_ns`, because no
// thread ticks, earlier purges no longer count.
void begin_refault_window(uint64_t stale_ns);

// Since the process started; a forked child starts anew.
struct Refaults {
  uint64_t runs;  // allocations that reused purged pages
  uint64_t bytes;
  // Of these, purged after a delay or because free memory exceeded its limit.
  uint64_t delayed_bytes;
};
Refaults refaults();
// Called by fork, with the locks of all shards held.
void reset_refaults_in_child();

}  // namespace seemalloc::pages

// Refaults: memory that was given back and is handed out again soon, which would better have been kept.
//
// Counted in windows as long as the purge delay: what went in this window or in the one before and is wanted again is a refault,
// of regions page by page, of huge memory by its sum. Counted apart is what went because somebody asked or memory was short, and huge
// memory that went when it was freed (WantedAgain): that says nothing of the delay. Who calls: the purge (what has gone, when a
// window ends), page heap and huge memory (what is handed out). Threads: any; what concerns a region is under its shard's lock, the rest is atomic.
#pragma once

#include <cstddef>
#include <cstdint>

namespace seemalloc::pages {

struct Region;
struct Shard;

// With the shard's lock held:
// `at_once`: whatever the delay was.
void note_gone(Region* region, unsigned first, unsigned pages, bool at_once);
void note_refaults(Shard& shard, Region* region, unsigned first, unsigned pages);

void note_huge_gone(size_t bytes);
// So many bytes of huge memory have been mapped, which what went at once would have served or not.
void note_huge_mapped(size_t bytes, bool gone_at_once);

// A window ends and the next one begins. Where none has begun by `stale_ns`, since nobody ticks, what went is too long ago.
void begin_refault_window(uint64_t stale_ns);

// Since the process began, as a child of fork too.
struct Refaults {
  uint64_t runs;  // allocations that met some
  uint64_t bytes;
  uint64_t delayed_bytes;  // of them, what went after a delay, or was more than may be kept
};
Refaults refaults();
// With the locks of all shards held, by fork.
void forget_refaults_in_child();

}  // namespace seemalloc::pages

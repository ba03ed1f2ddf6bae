// Snapshot of the statistics that the calls of other allocators return, all taken at one moment.
//
// Threads: any; the lock is held only while copying. Taking a snapshot walks all spans.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/heap/thread/size_class.h"

namespace seemalloc::compat {

struct ClassCounts {
  size_t live, free, spans;  // live blocks, free blocks in spans or lists, spans
};

// In bytes, unless noted. heap = allocated + cached + fragmentation + free_dirty + free_clean.
struct Snapshot {
  uint64_t epoch;        // number of snapshots taken so far
  size_t allocated;      // live blocks, by allocated size
  size_t large;          // the part of `allocated` in blocks with pages of their own
  size_t cached;         // free blocks kept for threads
  size_t fragmentation;  // free blocks and uncarved ends of spans that hold live blocks
  size_t free_dirty;     // free pages with memory behind them
  size_t free_clean;     // free pages without memory
  size_t heap;           // address space of the heap
  size_t metadata;
  size_t resident;  // upper bound on the resident part of heap and metadata
  size_t threads;
  uint64_t purge_calls;  // madvise calls that purged free memory
  uint64_t purged_bytes;
  uint64_t uptime_ns;
  ClassCounts classes[heap::kClassCount];

  // Bytes in spans and in blocks with pages of their own.
  size_t active() const { return heap - free_dirty - free_clean; }
};

// Takes a new snapshot.
void take_snapshot(Snapshot* out);

// Replaces the snapshot that mallctl's "stats." names read. As with jemalloc, it does not change
// until it is refreshed.
void refresh_snapshot();
// Returns that snapshot; takes it if there is none.
void current_snapshot(Snapshot* out);

// Another thread of the parent may have been in the middle of taking one.
void reset_snapshot_in_child();

}  // namespace seemalloc::compat

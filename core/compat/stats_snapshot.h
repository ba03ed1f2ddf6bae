// The statistics that calls of other allocators ask for, taken together at one moment.
//
// Threads: any; the lock is held for copying only. Taking one walks all spans.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/heap/size_class.h"

namespace seemalloc::compat {

struct ClassFigures {
  size_t live, free, spans;  // blocks the program has, blocks free in spans or lists, spans
};

// Bytes, where nothing else is said. heap = allocated + cached + fragmentation + free_dirty + free_clean.
struct Snapshot {
  uint64_t epoch;        // how many were taken
  size_t allocated;      // blocks of the program, by allocated size
  size_t large;          // of them, in blocks of their own pages
  size_t cached;         // free blocks kept for threads
  size_t fragmentation;  // free blocks and uncut ends of spans that hold live blocks
  size_t free_dirty;     // free pages that still have memory
  size_t free_clean;     // free pages without
  size_t heap;           // address space of the heap
  size_t metadata;
  size_t resident;       // at most so much of heap and metadata has memory
  size_t threads;
  uint64_t purge_calls;   // madvise, to give back what was free
  uint64_t purged_bytes;
  uint64_t uptime_ns;
  ClassFigures classes[heap::kClassCount];

  // In spans and blocks of their own pages.
  size_t active() const { return heap - free_dirty - free_clean; }
};

// A fresh one.
void take_snapshot(Snapshot* out);

// The one that mallctl's "stats." names read: it stands still until refreshed, as jemalloc's.
void refresh_snapshot();
// Takes it if there is none.
void kept_snapshot(Snapshot* out);

// Another thread of the parent may have been in the middle of it.
void forget_snapshot_in_child();

}  // namespace seemalloc::compat

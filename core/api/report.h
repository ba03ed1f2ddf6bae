// The process's memory in words and numbers: for the control socket, malloc_stats, mallinfo and the public API.
#pragma once

#include <cstddef>

#include "core/base/text.h"
#include "core/heap/statistics.h"
#include "core/pages/page_heap.h"

namespace seemalloc {

// Everything resident, explained: rss = live + cached + fragmentation + metadata + not_ours.
struct MemoryReport {
  size_t rss;
  size_t live;           // blocks of the program, as far as they are resident
  size_t cached;         // free blocks kept for threads, free pages not yet given back
  size_t fragmentation;  // free blocks and uncut ends of spans that hold live blocks
  size_t metadata;
  size_t not_ours;
  size_t live_allocated;  // blocks of the program, touched or not
  size_t mapped;
  size_t dirty;  // the part of cached that is free pages
};

// Asks the kernel which of our pages are resident when `with_residency`: about 10 µs per region.
MemoryReport memory_report(const heap::Statistics& statistics, bool with_residency);

// The statistics of the control socket, as one JSON object. Without residency the parts of rss that rest on it are left out.
void write_json(Text& out, bool with_residency);
// So much room it needs.
inline constexpr size_t kJsonBytes = 64 * KiB;

// A few lines of text on standard error: malloc_stats().
void print_statistics();

// What each thread keeps and did, as one JSON object. Threads for which there is no room are left out, and counted.
void write_threads_json(Text& out, size_t room);
// So much room it needs.
size_t threads_json_bytes();

}  // namespace seemalloc

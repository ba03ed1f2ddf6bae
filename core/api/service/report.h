// The process's memory as text and numbers: for the control socket, malloc_stats, mallinfo and the public API.
#pragma once

#include <cstddef>

#include "core/base/text.h"
#include "core/heap/statistics.h"
#include "core/pages/page_heap.h"

namespace seemalloc {

// All resident memory, by use: rss = live + cached + fragmentation + metadata + not_ours.
struct MemoryReport {
  size_t rss;
  size_t live;           // the resident part of live blocks
  size_t cached;         // free blocks in threads' lists, spans without a live block, free pages not yet returned to the OS
  size_t fragmentation;  // free blocks and uncarved ends of spans that contain live blocks
  size_t metadata;
  size_t not_ours;
  size_t live_allocated;  // live blocks, touched or not
  size_t mapped;
  size_t dirty;  // the part of cached that is free pages; without residency: free pages that have not been returned to the OS
  size_t unused;  // the part of cached that contains no block, but is on huge pages
  // live, cached, fragmentation and not_ours are each within this many bytes of the truth (heap/residency.h; three
  // standard errors). 0: exact, if the program is idle.
  size_t uncertain;
  bool told;  // false: the kernel refuses to report residency (mincore), so memory that may be resident counts as resident
};

// Asks the kernel which of our pages are resident if `with_residency`: 2 to 10 µs per region, up to 4,096 of them.
MemoryReport memory_report(const heap::Statistics& statistics, bool with_residency);

// The breakdown of RSS, as one JSON object of up to kMemoryJsonBytes: the field `memory` of the statistics and the line
// `memory` of the heap map.
void write_memory_json(Text& out, const heap::Statistics& statistics, bool with_residency);
inline constexpr size_t kMemoryJsonBytes = 512;

// The statistics of the control socket, as one JSON object. Without residency the parts of rss that depend on it are
// omitted.
void write_json(Text& out, bool with_residency);
// The buffer size that write_json() needs.
inline constexpr size_t kJsonBytes = 64 * KiB;

// A few lines of text on standard error: malloc_stats().
void print_statistics();

// The cache and counters of each thread, as one JSON object. Threads that do not fit are left out, and counted.
void write_threads_json(Text& out, size_t room);
// The buffer size that write_threads_json() needs.
size_t threads_json_bytes();

}  // namespace seemalloc

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
  size_t cached;         // free blocks in threads' lists, spans without a live block, free pages not yet given back
  size_t fragmentation;  // free blocks and uncut ends of spans that hold live blocks
  size_t metadata;
  size_t not_ours;
  size_t live_allocated;  // blocks of the program, touched or not
  size_t mapped;
  size_t dirty;  // the part of cached that is free pages; without residency: free pages that have not been given back
  size_t unused;  // the part of cached that holds nothing, but is on huge pages
  // live, cached, fragmentation and not_ours are each right to within so many bytes (heap/residency.h; three standard errors). 0: exact,
  // while the program rests.
  size_t uncertain;
  bool told;  // false: the kernel refuses to tell what is resident (mincore), so what may be resident counts as if it were
};

// Asks the kernel which of our pages are resident when `with_residency`: 2 to 10 µs per region, up to 4,096 of them.
MemoryReport memory_report(const heap::Statistics& statistics, bool with_residency);

// RSS explained, as one JSON object of up to kMemoryJsonBytes: the field `memory` of the statistics and the line `memory` of the heap map.
void write_memory_json(Text& out, const heap::Statistics& statistics, bool with_residency);
inline constexpr size_t kMemoryJsonBytes = 512;

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

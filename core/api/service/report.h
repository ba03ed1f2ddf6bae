// The process's memory as text and numbers: for the control socket, malloc_stats, mallinfo and the
// public API.
#pragma once

#include <cstddef>

#include "core/api/sampling/memory_report.h"
#include "core/base/text.h"
#include "core/heap/reports/statistics.h"

namespace seemalloc {

// The breakdown of RSS, as one JSON object of up to kMemoryJsonBytes: the field `memory` of the
// statistics and the line `memory` of the heap map.
void write_memory_json(Text& out, const heap::Statistics& statistics, bool with_residency);
inline constexpr size_t kMemoryJsonBytes = 512;

// The statistics of the control socket, as one JSON object. Without residency the parts of rss that
// depend on it are omitted.
void write_json(Text& out, bool with_residency);
// The buffer size that write_json() needs.
inline constexpr size_t kJsonBytes = 64 * KiB;

// A few lines of text on standard error: malloc_stats().
void print_statistics();

// The cache and counters of each thread, as one JSON object. Threads that do not fit are left out,
// and counted.
void write_threads_json(Text& out, size_t room);
// The buffer size that write_threads_json() needs.
size_t threads_json_bytes();

}  // namespace seemalloc

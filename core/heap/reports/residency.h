// Residency: the use of the heap's resident pages.
//
// The kernel reports which pages of a span are resident, and the span knows how many of its bytes
// are live. The result is exact if all of the span's pages are resident, or the missing ones are
// known to be free (holes). Otherwise a missing page may belong to a live block or to a free one:
// the difference between the two extremes is in `uncertain_bytes`. A span does not know which of
// its blocks are in threads' lists: the resident fraction of a class's live blocks is used for them
// too.
// In a large heap only some chunks of 2 MiB are queried, evenly spread; the rest is assumed to be
// like them (ratio estimators; their variance is reported).
// Caller: core/api/service/report.cc, for statistics, the heap map and fragmentation profiles.
// Threads: any. No lock is held during the queries to the kernel.
// Cost: 2 to 10 µs per queried chunk, at most kMaxSampledChunks of spans and as many of huge
// blocks.
#pragma once

#include <cstddef>

#include "core/heap/reports/statistics.h"

namespace seemalloc::heap {

struct Residency {
  // In bytes, all of them resident.
  size_t live;  // live blocks
  // Free blocks in threads' lists, spans and large blocks that threads cache, pages that the kernel
  // may take, reserves of huge blocks.
  size_t cached;
  size_t dirty;  // other free pages, cached huge memory
  // Free pages without contents that are resident because they are part of a huge page.
  size_t unused;
  size_t fragmentation;  // free blocks and uncarved ends of spans with live blocks
  // The errors of the values above.
  // The largest possible error of each: a page of a partly free span that is not resident may hold
  // live or free blocks.
  size_t uncertain_bytes;
  double variance;  // of each, if only some chunks were queried
  // false: the kernel refused some queries, and the memory in question counts as resident.
  bool kernel_answered;
};

inline constexpr unsigned kMaxSampledChunks = 4096;

// `statistics`: taken just before.
Residency residency(const Statistics& statistics, unsigned most_chunks = kMaxSampledChunks);

}  // namespace seemalloc::heap

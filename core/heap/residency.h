// Residency: what the resident pages of the heap hold.
//
// The kernel tells which pages of a span are resident, and the span knows how much of it live blocks take. Where all of its pages are there, or
// those that are not are known to be free (holes), that is exact. Else it is open whether a missing page is a live block's or a free one's:
// what is between the two extremes is in `open_bytes`. Which blocks lie in threads' lists no span knows: those of a class are resident as
// its live ones are.
// Of a large heap only some pieces of 2 MiB are asked about, spread evenly; the rest is taken to be like them (ratio estimators, whose
// variance is told).
// Who calls: core/api/report.cc, when statistics, the heap map or a fragmentation profile are asked for. Threads: any. No lock is held while the kernel is asked.
// Cost: 2 to 10 µs for each piece that is asked about, at most kMostPieces of spans and as many of huge blocks.
#pragma once

#include <cstddef>

#include "core/heap/statistics.h"

namespace seemalloc::heap {

struct Residency {
  // In bytes, all resident.
  size_t live;           // blocks that the program has
  size_t cached;         // free blocks in threads' lists, spans and large blocks that threads keep, pages that the kernel may take, reserves of huge blocks
  size_t dirty;          // other free pages, kept huge memory
  size_t unused;         // free pages that hold nothing, and yet are there: a huge page has brought them
  size_t fragmentation;  // free blocks and uncut ends of spans with live blocks
  // How sure that is.
  size_t open_bytes;  // each of them may be off by so much, since pages are missing in spans that are partly free
  double variance;    // of each, where only some pieces were asked about
  bool told;          // false: the kernel refused to tell, and what it did not tell of counts as resident
};

inline constexpr unsigned kMostPieces = 4096;

// `statistics`: taken just before.
Residency residency(const Statistics& statistics, unsigned most_pieces = kMostPieces);

}  // namespace seemalloc::heap

// The address space of huge memory: what is mapped for it, where its seams are (seams.h), and what of it stays mapped without memory.
//
// Freed huge memory is unmapped. Each hole between two neighbours costs one more mapping, of which a process may have
// only so many, so that from kMostPieces pieces on holes stay mapped (kept_space.h): their memory goes, and the next requests get them.
// They go when a neighbour goes, when pieces have become few, and some when the system refuses memory: they count against limits of
// the address space.
// Who calls: huge.cc. Threads: any; one lock, not held across system calls. Lock order: huge.cc's, then this one.
// Invariant: before addresses are given up, their entries in the page map are foreign and their seams forgotten.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/os/calls.h"
#include "core/pages/address_range.h"

namespace seemalloc::pages {

// A quarter of the kernel's default limit of mappings: the program's own have to have room, and blocks that were moved together have
// up to as many seams.
inline constexpr size_t kMostPieces = 16384;

// All ranges are multiples of this, and start at one.
size_t huge_granule();

// Fresh memory. False when refused.
bool map_huge(size_t bytes, size_t alignment, Range* out);
// The same at this place; false also when something is there.
bool map_huge_at(const Range& range);
// From what stays mapped; it reads as zero. The second: at this place.
bool take_kept_huge(size_t bytes, size_t alignment, Range* out);
bool take_kept_huge_at(const Range& range);

// Gives memory back, and its addresses too unless they are worth keeping. Calls keep_stuck_huge() for what cannot be given back.
void discard_huge(Range range, os::Reason reason = os::Reason::kHuge);
// huge.cc: neither the addresses nor the memory could be given back (locked by the program).
void keep_stuck_huge(const Range& range);

// Around a move by the kernel. Before a range goes away: its entries become foreign, its seams are forgotten. It is there, as one
// mapping, or still.
void forget_huge_mapping(const Range& range);
void note_huge_mapping(const Range& range);
// The kernel has unmapped it already. Another thread may have mapped memory there, so that entries and seams are left alone: those of
// the range's own can only be seams, and one seam too many does no harm.
void lose_huge_mapping(const Range& range);
// One mapping has come where there may have been others of ours.
void replace_huge_mapping(const Range& range);

// The part of `range` up to its first seam.
Range first_huge_part(const Range& range);
unsigned seams_inside(const Range& range);
// False: there are too many to be known.
bool seams_are_known();

struct HugeSpace {
  size_t pieces;      // of mapped memory, blocks and all
  size_t kept_bytes;  // of addresses without memory
  size_t kept_ranges;
};
HugeSpace huge_space();

// Unmaps what is kept, the largest first, up to seven eighths of the kernel's default limit of mappings. Returns bytes.
size_t unmap_kept_huge();

void lock_huge_space_for_fork();
void unlock_huge_space_after_fork();

}  // namespace seemalloc::pages

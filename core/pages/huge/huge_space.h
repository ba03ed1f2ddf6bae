// The address space of huge memory: the mapped ranges, their mapping boundaries
// (mapping_boundaries.h), and retained address ranges without memory.
//
// Freed huge memory is unmapped. Each hole between two neighbours costs one more mapping, and the
// kernel limits the mappings of a process. So from kMaxMappedRanges ranges on, holes stay mapped
// (retained_space.h): their memory is purged, and later requests reuse them. Retained ranges are
// unmapped when a neighbour is unmapped, when mapped ranges have become few, and partly when the OS
// refuses memory: they count against limits of the address space.
// Callers: huge.cc and its parts (huge_state.h). Threads: any; one lock, not held across system
// calls. Lock order: huge.cc's, then this one. Invariant: before addresses are unmapped, their
// entries in the page map are foreign and their boundaries are forgotten.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/os/kernel/calls.h"
#include "core/pages/huge/address_range.h"

namespace seemalloc::pages {

// A quarter of the kernel's default limit of mappings. The program's own mappings need room, and
// blocks that were moved together have up to as many boundaries.
inline constexpr size_t kMaxMappedRanges = 16384;

// All ranges start at a multiple of this and have a multiple of this many bytes.
size_t huge_granule();

// Maps fresh memory. Returns false when refused.
bool map_huge(size_t bytes, size_t alignment, Range* out);
// The same at this address. Returns false also when something is mapped there.
bool map_huge_at(const Range& range);
// Takes retained addresses, which read as zero. The second function takes exactly this range.
bool take_retained_huge(size_t bytes, size_t alignment, Range* out);
bool take_retained_huge_at(const Range& range);

// Unmaps memory, or purges it and retains the addresses if they are worth keeping. Calls
// cache_unreleasable_huge() for ranges that the kernel refuses.
void discard_huge(Range range, os::Reason reason = os::Reason::kHuge);
// Defined in huge_caching.cc. Called when a range could be neither unmapped nor purged (locked by
// the program).
void cache_unreleasable_huge(const Range& range);

// Around a move by the kernel. forget: call before a range is unmapped or moved away; its entries
// become foreign and its boundaries are forgotten. note: the range is mapped (or still mapped), as
// one mapping.
void forget_huge_mapping(const Range& range);
void note_huge_mapping(const Range& range);
// The kernel has already unmapped the range. Another thread may have mapped memory there, so
// entries and boundaries are left alone. The range itself has only boundaries here, no entries, and
// an excess boundary does no harm.
void note_lost_huge_mapping(const Range& range);
// The range is one new mapping, in place of our previous ones.
void replace_huge_mapping(const Range& range);

// The part of `range` up to its first boundary.
Range first_single_mapping(const Range& range);
unsigned boundaries_inside(const Range& range);
// False when there are too many boundaries to record.
bool boundaries_are_known();

struct HugeSpace {
  size_t mapped_ranges;   // with blocks or retained
  size_t retained_bytes;  // address space without memory
  size_t retained_ranges;
};
HugeSpace huge_space();

// Unmaps retained ranges, largest first, up to seven eighths of the kernel's default limit of
// mappings. Returns the bytes unmapped.
size_t unmap_retained_huge();

void lock_huge_space_for_fork();
void unlock_huge_space_after_fork();
// For verify.h: the broken invariant, or null.
const char* verify_huge_space();

}  // namespace seemalloc::pages

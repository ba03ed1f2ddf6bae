// Region: 256 pages of address space, aligned to 2 MiB, and which of its pages are in use, dirty or clean.
//
// A free page is clean (never touched, or purged: it reads as zero and has no memory behind it), young (freed in this
// purge period) or old (freed in the one before). Never split; unmapped only as a whole, when the OS refuses memory.
// Threads: the lock of the shard that owns it.
#pragma once

#include <cstdint>

#include "core/pages/page_bits.h"

namespace seemalloc::pages {

struct Region {
  uintptr_t base;
  PageBits used;   // in spans, or being purged
  PageBits purging;  // detached for the duration of a purge; in the child of fork nobody would put them back
  PageBits young;  // free and dirty, freed in the current period
  PageBits old;    // free and dirty, freed in the period before
  PageBits spare;  // of young and old: memory of a huge page that was never handed out; reads as zero
  PageBits given_back;    // clean because they were purged, and not handed out since
  uint64_t given_back_ns;  // when any of them last were (coarse)
  uint16_t longest_free;  // longest run of pages not in use; the bucket the region is filed under
  uint16_t shard;
  bool on_dirty_list;
  bool huge;  // lies on one huge page that is not split yet
  bool expecting;  // its first touch, which is under way, takes a huge page
  Region* next;  // in its bucket
  Region* prev;
  Region* next_dirty;
  Region* next_all;  // of the shard, for walks

  uintptr_t address_of(unsigned page) const { return base + size_t{page} * kPageBytes; }
  unsigned page_of(uintptr_t address) const { return static_cast<unsigned>((address - base) >> kPageShift); }
};

}  // namespace seemalloc::pages

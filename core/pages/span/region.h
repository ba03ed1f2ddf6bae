// Region: 256 pages of address space, aligned to 2 MiB, and the state of its pages: in use, dirty
// or clean.
//
// A free page is clean (never touched, or purged: it reads as zero and has no memory behind it),
// dirty, or lazy, which means left to the kernel to take (MADV_FREE: its contents are unknown). A
// dirty page is young (freed in this purge period), old (freed in the one before) or due (freed
// earlier). A region is never split, and it is unmapped only as a whole, when the OS refuses
// memory.
// Threads: the lock of the shard that owns it.
#pragma once

#include <cstdint>

#include "core/base/check.h"
#include "core/pages/span/page_bits.h"

namespace seemalloc::pages {

// Regions belong to this many shards at most (shard.h).
inline constexpr unsigned kMaxShards = 8;

// A region with at least this many pages in use is dense: worth a huge page, and worth keeping the
// huge page it is on.
inline constexpr unsigned kDensePages = kPagesPerRegion * 95 / 100 + 1;

struct Region {
  // Invariants (verify.h):
  //  1. base is aligned to the region's size.
  //  2. a page is in one of used, young, old, due and lazy, or clean: in none of them.
  //  3. purging is a part of used, and spare a part of the dirty pages.
  //  4. at most one of huge, expecting and collapsing is set.
  //  5. a region that rests is dense, lies on a huge page and is not on the dirty list.
  uintptr_t base;
  PageBits used;     // in spans, or being purged
  PageBits purging;  // detached during a purge; the child of a fork has to reattach them
  PageBits young;    // free and dirty, freed in the current period
  PageBits old;      // free and dirty, freed in the period before
  PageBits due;      // free and dirty, freed before that: to be purged
  PageBits spare;    // of the dirty: memory of a huge page that was never allocated; reads as zero
  PageBits lazy;     // free, left to the kernel (MADV_FREE)
  PageBits purged_recently;     // purged in the window purged_window and not allocated since
  PageBits purged_last_window;  // the same in the window before that one
  PageBits purged_on_request;   // of both, pages purged on request or under memory pressure
  uint32_t purged_window;
  uint16_t longest_free;  // longest run of pages not in use; selects the region's bucket
  uint16_t shard;
  bool on_dirty_list;
  bool immediate;     // on the list of regions with a run to purge immediately
  bool on_huge_page;  // is on one huge page that is not split yet
  bool resting;  // huge and dense: its free pages are not purged; on the list of resting regions
  bool expecting_huge_page;  // its first touch, which is under way, takes a huge page
  bool collapsing;           // is being moved onto a huge page (collapse.h): must not be unmapped
  // A part was purged during the move: the result is no huge page, or not for long.
  bool split_while_collapsing;
  uint8_t collapse_attempts;         // at such a move
  uint16_t freed_since_dense_pages;  // since dense_since_ns
  uint16_t collapse_charged_pages;   // for the move under way
  uint64_t dense_since_ns;           // as far as known; 0: was not dense at the last check
  Region* next;                      // in its bucket
  Region* prev;
  Region* next_dirty;
  Region* prev_dirty;
  Region* next_immediate;
  Region* next_all;  // of the shard, for walks
  Region* prev_all;

  PageBits dirty() const {
    PageBits all = young;
    all |= old;
    all |= due;
    return all;
  }
  bool is_dirty(unsigned first, unsigned pages) const {
    return young.any(first, pages) || old.any(first, pages) || due.any(first, pages);
  }
  // Marks these pages as not dirty.
  void clear_dirty(unsigned first, unsigned pages) {
    young.clear(first, pages);
    old.clear(first, pages);
    due.clear(first, pages);
  }

  uintptr_t address_of(unsigned page) const {
    DCHECK(page <= kPagesPerRegion);
    return base + size_t{page} * kPageBytes;
  }
  unsigned page_of(uintptr_t address) const {
    DCHECK(address - base < kRegionBytes);
    return static_cast<unsigned>((address - base) >> kPageShift);
  }
};

// The position of a walk over all regions (region_walk.h). It is part of the walk and registered
// with the shard, both under the shard's lock.
struct RegionCursor {
  Region* at = nullptr;
  RegionCursor* next = nullptr;
};

}  // namespace seemalloc::pages

// Region: 256 pages of address space, aligned to 2 MiB, and which of its pages are in use, dirty or clean.
//
// A free page is clean (never touched, or purged: it reads as zero and has no memory behind it), dirty, or left to the kernel to
// take (MADV_FREE: nobody knows what it reads as). A dirty one is young (freed in this purge period), old (freed in the one
// before) or due (freed earlier). Never split; unmapped only as a whole, when the OS refuses memory.
// Threads: the lock of the shard that owns it.
#pragma once

#include <cstdint>

#include "core/pages/page_bits.h"

namespace seemalloc::pages {

// From so many pages in use on a region is dense: worth a huge page, and worth keeping the one it lies on.
inline constexpr unsigned kDense_pages = kPagesPerRegion * 95 / 100 + 1;

struct Region {
  uintptr_t base;
  PageBits used;   // in spans, or being purged
  PageBits purging;  // detached for the duration of a purge; in the child of fork nobody would put them back
  PageBits young;  // free and dirty, freed in the current period
  PageBits old;    // free and dirty, freed in the period before
  PageBits due;    // free and dirty, freed before that: to be purged
  PageBits spare;  // of the dirty: memory of a huge page that was never handed out; reads as zero
  PageBits lazy;   // free, left to the kernel
  PageBits gone;   // purged in the window gone_window and not handed out since
  PageBits gone_before;  // the same in the window before that one
  PageBits gone_at_once;  // of both, those that went on request or since memory was short
  uint32_t gone_window;
  uint16_t longest_free;  // longest run of pages not in use; the bucket the region is filed under
  uint16_t shard;
  bool on_dirty_list;
  bool ripe;  // on the list of those with a run to be purged at once
  bool huge;  // lies on one huge page that is not split yet
  bool resting;  // huge and dense: what is free of it stays with it, and is on the list of those that rest
  bool expecting;  // its first touch, which is under way, takes a huge page
  bool collapsing;  // is being moved onto a huge page (collapse.h): must not be unmapped
  bool parted;  // while that was going on some of it was given back: what comes of it is no huge page, or not for long
  uint8_t attempts;  // to do that
  uint16_t freed_pages;  // since dense_since_ns
  uint16_t charged_pages;  // for the one under way
  uint64_t dense_since_ns;  // as far as is known; 0: was not dense when last looked at
  Region* next;  // in its bucket
  Region* prev;
  Region* next_dirty;
  Region* prev_dirty;
  Region* next_ripe;
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
  // These pages are not dirty any more.
  void forget_dirty(unsigned first, unsigned pages) {
    young.clear(first, pages);
    old.clear(first, pages);
    due.clear(first, pages);
  }

  uintptr_t address_of(unsigned page) const { return base + size_t{page} * kPageBytes; }
  unsigned page_of(uintptr_t address) const { return static_cast<unsigned>((address - base) >> kPageShift); }
};

}  // namespace seemalloc::pages

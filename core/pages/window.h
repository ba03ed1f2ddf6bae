// Window: the addresses that regions are mapped at side by side, and their flat map: page → span in one load. What is
// outside of it (huge mappings, regions it has no place for) is found in the two-level page map.
//
// Nothing is reserved. The window begins far below everything mapped so far, where the kernel, which places mappings from
// the top downwards, does not come to; each region is mapped where the last one ends, the map in front of the window in
// the same way, and only if nothing is there. So only what is used counts against limits and is locked, dumped or
// charged, and the mappings merge into two. A place that somebody else has got is stepped over.
//
// Who reads: free() on every pointer. Who writes: the page heap, for pages of its own; the lock is for growing.
// Threads: any. Entries exist before `pages` counts them. Who reads an old `pages` or `base` looks into the two-level map's
// slow path, which looks here again; a pointer into a new region comes with the program's own synchronisation.
// Invariants:
//  1. pages below `pages` have their entry here, all others in the two-level map: foreign_span where nothing is ours.
//  2. a region's entries are foreign before it is unmapped, so whoever gets the addresses next is never taken for us.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "core/base/compiler.h"
#include "core/base/units.h"
#include "core/os/calls.h"
#include "core/os/lock.h"
#include "core/pages/span.h"

namespace seemalloc::pages {

class alignas(kCacheLineBytes) Window {
 public:
  // The page of an address, counted from the base: at or above pages() for everything outside, null included.
  SEEMALLOC_ALWAYS_INLINE size_t page_of(const void* p) const {
    return (reinterpret_cast<uintptr_t>(p) - load_racing(base_)) >> kPageShift;
  }
  SEEMALLOC_ALWAYS_INLINE size_t pages() const { return load_racing(pages_); }
  // The same page for a caller that must not come in unasked: at or above pages() until admit() has been called.
  SEEMALLOC_ALWAYS_INLINE size_t guarded_page_of(const void* p) const {
    return (reinterpret_cast<uintptr_t>(p) - load_racing(guarded_base_)) >> kPageShift;
  }
  // Lets those callers in once there is a window, whose base never changes. Costs two loads when they are in.
  void admit() {
    uintptr_t base = load_racing(base_);
    if (load_racing(guarded_base_) != base) store_racing(guarded_base_, base);
  }
  // Requires: page < pages(). Never null.
  SEEMALLOC_ALWAYS_INLINE Span* span_at(size_t page) const { return load_racing(load_racing(spans_)[page]); }

  // Points the pages at `span`. Requires: they are below pages().
  void set(size_t page, size_t count, const Span* span);
  // Nothing of ours is in the range any more, as far as it is inside.
  void forget(uintptr_t start, size_t bytes);

  // A fresh region: zeroed, readable and writable, its pages marked free. 0 when the OS refuses it at the address.
  uintptr_t map_region();
  // The last map_region() was refused, but memory as such is not: the place is somebody else's. Leaves it out.
  void step_over();
  // Gives a region back; its place is used again. Where the kernel refuses to unmap it (vm.max_map_count) its memory goes and it stays
  // mapped for the next map_region(). The place is lost only where the memory is refused, too (locked by the program).
  void unmap_region(uintptr_t start, os::Reason reason = os::Reason::kPressure);
  bool contains(uintptr_t address) const { return page_of(reinterpret_cast<void*>(address)) < pages(); }

  // Something of ours begins at `start`. True when the page's entry is here; else it is to be in the two-level map for good:
  // the window ends below.
  bool has_entry(uintptr_t start);

  size_t map_bytes() const { return map_bytes_.load(std::memory_order_relaxed); }
  // For the fork handlers.
  Lock& grow_lock() { return lock_; }

 private:
  bool place_locked();
  bool add_region_locked();
  // The place of a region that could not be unmapped: its first entry is foreign, the others are free.
  bool is_kept_mapped(size_t page) const;
  uintptr_t take_place_locked();

  // Before there is a window no address is near it: null - kNowhere is far beyond any number of pages.
  static constexpr uintptr_t kNowhere = uintptr_t{1} << 63;

  // Read by every free.
  uintptr_t base_ = kNowhere;
  uintptr_t guarded_base_ = kNowhere;  // base_ or kNowhere
  size_t pages_ = 0;        // with entries; regions' worth
  Span** spans_ = nullptr;  // the flat map

  Lock lock_;
  size_t end_ = 0;     // pages it can grow to
  size_t search_ = 0;  // no free place is below this page
  bool too_late_ = false;  // to be placed: something is in the two-level map
  std::atomic<size_t> map_bytes_{0};
};

extern constinit Window window SEEMALLOC_HIDDEN;

}  // namespace seemalloc::pages

// Window: the address range in which regions are mapped side by side, and its flat map: page → span
// in one load. Addresses outside (huge mappings, regions for which it has no room) are found in the
// two-level page map.
//
// Nothing is reserved. The window begins far below everything mapped so far; the kernel places
// mappings from the top downwards and does not reach it. Each region is mapped where the last one
// ends, and the map in front of the window in the same way, and only if nothing is there. So only
// memory in use counts against limits and is locked, dumped or charged, and the mappings merge into
// two. A place that is mapped by others is skipped.
//
// Readers: free(), for every pointer. Writer: the page heap, for its own pages; the lock is for
// growing.
// Threads: any. Entries exist before `pages` counts them. A thread that reads an old `pages` or
// `base` takes the two-level map's slow path, which checks the window again; a pointer into a new
// region arrives with the program's own synchronisation.
// Invariants:
//  1. pages below `pages` have their entry here, all others in the two-level map; it is
//     foreign_span where nothing is ours.
//  2. a region's entries are foreign before it is unmapped, so the next user of the addresses is
//     never taken for us.
#pragma once

#include <arch_words.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "core/base/compiler.h"
#include "core/base/units.h"
#include "core/os/kernel/calls.h"
#include "core/os/runtime/lock.h"
#include "core/pages/span/span.h"

namespace seemalloc::pages {

class alignas(kCacheLineBytes) Window {
 public:
  // The page index of an address, counted from the base: at or above pages() for every address
  // outside, null included.
  SEEMALLOC_ALWAYS_INLINE size_t page_of(const void* p) const {
    return (reinterpret_cast<uintptr_t>(p) - racy_load(base_)) >> kPageShift;
  }
  SEEMALLOC_ALWAYS_INLINE size_t pages() const { return racy_load(pages_); }
  // The same, for a caller that must not enter the window before open_guarded_access() has been
  // called: until then at or above pages().
  SEEMALLOC_ALWAYS_INLINE size_t guarded_page_of(const void* p) const {
    return (reinterpret_cast<uintptr_t>(p) - racy_load(guarded_base_)) >> kPageShift;
  }
  // Admits those callers once the window exists; its base never changes. Costs two loads after
  // that.
  void open_guarded_access() {
    uintptr_t base = racy_load(base_);
    if (racy_load(guarded_base_) != base) racy_store(guarded_base_, base);
  }
  // Requires: page < pages(). Never null.
  SEEMALLOC_ALWAYS_INLINE Span* span_at(size_t page) const {
    return racy_load(racy_load(spans_)[page]);
  }

  // Points the pages at `span`. Requires: they are below pages().
  void set(size_t page, size_t count, const Span* span);
  // Marks the part of the range that is inside the window as foreign.
  void mark_foreign(uintptr_t start, size_t bytes);

  // Maps a fresh region: zeroed, readable and writable, its pages marked free. Returns 0 when the
  // OS refuses it at the address.
  uintptr_t map_region();
  // Call when the last map_region() was refused but memory is available: the place is mapped by
  // others. Skips it.
  void skip_place();
  // Unmaps a region; its place is reused. If the kernel refuses (vm.max_map_count), its memory is
  // purged and it stays mapped for the next map_region(). The place is lost only if purging is
  // refused too (locked by the program).
  void unmap_region(uintptr_t start, os::Reason reason = os::Reason::kPressure);
  bool contains(uintptr_t address) const {
    return page_of(reinterpret_cast<void*>(address)) < pages();
  }

  // Called when something of ours begins at `start`. Returns true when the page's entry is here.
  // Otherwise it is in the two-level map for good: the window must end below it.
  bool has_entry(uintptr_t start);

  size_t map_bytes() const { return map_bytes_.load(std::memory_order_relaxed); }
  // For the fork handlers.
  Lock& grow_lock() { return lock_; }

 private:
  bool place_locked();
  bool add_region_locked();
  // True for the place of a region that could not be unmapped: its first entry is foreign, the
  // others are free.
  bool is_retained(size_t page) const;
  uintptr_t commit_region_locked();

  // While there is no window no address is near it: null - kNoBase is far beyond any number of
  // pages.
  static constexpr uintptr_t kNoBase = uintptr_t{1} << 63;

  // Read by every free().
  uintptr_t base_ = kNoBase;
  uintptr_t guarded_base_ = kNoBase;  // base_ or kNoBase
  size_t pages_ = 0;                  // pages with entries; a multiple of a region
  Span** spans_ = nullptr;            // the flat map

  Lock lock_;
  size_t max_pages_ = 0;              // pages it can grow to
  size_t first_free_hint_ = 0;        // no place below this page is free
  bool placement_forbidden_ = false;  // too late to be placed: the two-level map has entries
  std::atomic<size_t> map_bytes_{0};
};

extern constinit Window window SEEMALLOC_HIDDEN;

}  // namespace seemalloc::pages

// PageMap: maps any address to its span: by the window's flat map (window.h) for most of our
// addresses, by a two-level map over 48 bits for the rest, ours or not. One entry per page.
//
// Readers: realloc(), malloc_usable_size(), and free() of addresses outside the window. Writer: the
// page heap. Entries are offsets, so that zero-filled memory is valid: a zero entry of the root is
// the static zero leaf, a zero entry of a leaf is `foreign_span` (kind kForeign, without an owner).
// Null and foreign pointers therefore need no branch of their own, not even before anything is
// initialised (the window has no pages then).
// Threads: entries are relaxed atomics. A pointer reaches another thread only through the program's
// own synchronisation, which orders the entry too.
#pragma once

#include <atomic>
#include <cstdint>

#include "core/base/compiler.h"
#include "core/base/units.h"
#include "core/os/runtime/lock.h"
#include "core/pages/span/span.h"
#include "core/pages/span/window.h"

namespace seemalloc::pages {

class PageMap {
  // Invariant 1 (verify.h): the entry of a page in use is its span, or free_span until the span is
  // published and once it is released. The entry of any other page of a region is free_span.
 public:
  static constexpr unsigned kLeafBits = 18;
  static constexpr unsigned kRootBits = 48 - kPageShift - kLeafBits;
  static constexpr size_t kLeafEntries = size_t{1} << kLeafBits;

  // The span at an address; never null. Addresses beyond 48 bits wrap: they fault on the first
  // access anyway.
  SEEMALLOC_ALWAYS_INLINE Span* span_of(const void* p) const {
    size_t near = window.page_of(p);
    if (SEEMALLOC_LIKELY(near < window.pages())) return window.span_at(near);
    uintptr_t page = reinterpret_cast<uintptr_t>(p) >> kPageShift;
    uintptr_t self = reinterpret_cast<uintptr_t>(this);
    uint64_t leaf = __atomic_load_n(&root_[(page >> kLeafBits) & ((size_t{1} << kRootBits) - 1)],
                                    __ATOMIC_RELAXED);
    const uint64_t* entries = reinterpret_cast<const uint64_t*>(self + leaf);
    uint64_t entry = __atomic_load_n(&entries[page & (kLeafEntries - 1)], __ATOMIC_RELAXED);
    return reinterpret_cast<Span*>(reinterpret_cast<uintptr_t>(&foreign_span) + entry);
  }

  // Ensures that entries exist for the range. Returns false when the OS refuses memory for a leaf.
  bool reserve(uintptr_t start, size_t bytes);
  // Points the range's pages at `span`. Requires: reserved.
  void set(uintptr_t start, size_t bytes, const Span* span);
  // Marks the range as ours without blocks, so that a late free() of it is reported as invalid, not
  // treated as foreign.
  void set_free(uintptr_t start, size_t bytes);
  // Marks the range as not ours.
  void set_foreign(uintptr_t start, size_t bytes);
  // Like set_foreign(), for a range where entries may be missing and few pages have a span. Cost:
  // proportional to the entries set, plus a little per 32 MiB.
  void mark_foreign(uintptr_t start, size_t bytes);

  // For the fork handlers.
  Lock& grow_lock();

  // Address space of the maps, including the window's.
  size_t map_bytes() const {
    return leaf_bytes_.load(std::memory_order_relaxed) + window.map_bytes();
  }

 private:
  // A leaf's entries, and a bit for each group of 64 entries: clear when all of the group are
  // foreign.
  static constexpr unsigned kGroupBits = 6;
  struct Leaf {
    uint64_t entries[kLeafEntries];
    uint64_t nonforeign_groups[kLeafEntries >> (2 * kGroupBits)];
  };
  Leaf* leaf_of(uintptr_t page) const;
  void set_in_leaf(uintptr_t first, uintptr_t end, uint64_t entry);
  void mark_group_foreign(Leaf* leaf, uintptr_t first, uintptr_t end);

  // Must come first: offset 0. Never written. No marks: only span_of() reads it.
  uint64_t zero_leaf_[kLeafEntries] = {};
  uint64_t root_[size_t{1} << kRootBits] = {};
  std::atomic<size_t> leaf_bytes_{0};
};

extern PageMap page_map;

}  // namespace seemalloc::pages

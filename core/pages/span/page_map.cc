#include "core/pages/span/page_map.h"

#include "core/base/check.h"
#include "core/os/kernel/memory.h"

namespace seemalloc::pages {

namespace {
Lock leaf_lock;
}  // namespace

constinit PageMap page_map;  // all zero, so it takes no space in the file

Lock& PageMap::grow_lock() { return leaf_lock; }

bool PageMap::reserve(uintptr_t start, size_t bytes) {
  DCHECK(bytes != 0 && start % kPageBytes == 0);
  if (window.has_entry(start)) return true;
  uintptr_t first = (start >> kPageShift) >> kLeafBits;
  uintptr_t last = ((start + bytes - 1) >> kPageShift) >> kLeafBits;
  if (last >> kRootBits != 0) return false;
  for (uintptr_t i = first; i <= last; i++) {
    if (__atomic_load_n(&root_[i], __ATOMIC_RELAXED) != 0) continue;
    LockGuard guard(leaf_lock);
    if (__atomic_load_n(&root_[i], __ATOMIC_RELAXED) != 0) continue;
    size_t leaf_bytes = round_up(sizeof(Leaf), os::page_bytes());
    void* leaf = os::map(leaf_bytes, os::Reason::kPageMap);
    if (leaf == nullptr) return false;
    leaf_bytes_.fetch_add(leaf_bytes, std::memory_order_relaxed);
    __atomic_store_n(&root_[i],
                     reinterpret_cast<uintptr_t>(leaf) - reinterpret_cast<uintptr_t>(this),
                     __ATOMIC_RELEASE);
  }
  return true;
}

// Null when there are no entries.
PageMap::Leaf* PageMap::leaf_of(uintptr_t page) const {
  uint64_t leaf = __atomic_load_n(&root_[page >> kLeafBits], __ATOMIC_RELAXED);
  return leaf != 0 ? reinterpret_cast<Leaf*>(reinterpret_cast<uintptr_t>(this) + leaf) : nullptr;
}

// Requires: the whole range is in one leaf, which exists. Groups are marked first, so that a later
// mark_foreign() of the range finds each entry.
void PageMap::set_in_leaf(uintptr_t first, uintptr_t end, uint64_t entry) {
  Leaf* leaf = leaf_of(first);
  DCHECK(leaf != nullptr);
  DCHECK(first < end && first >> kLeafBits == (end - 1) >> kLeafBits);
  first &= kLeafEntries - 1;
  end = ((end - 1) & (kLeafEntries - 1)) + 1;
  for (uintptr_t group = first >> kGroupBits; entry != 0 && group <= (end - 1) >> kGroupBits;
       group++) {
    uint64_t* word = &leaf->nonforeign_groups[group >> kGroupBits];
    uint64_t mark = uint64_t{1} << (group & ((1 << kGroupBits) - 1));
    if ((__atomic_load_n(word, __ATOMIC_RELAXED) & mark) == 0)
      __atomic_fetch_or(word, mark, __ATOMIC_RELAXED);
  }
  for (uintptr_t page = first; page < end; page++)
    __atomic_store_n(&leaf->entries[page], entry, __ATOMIC_RELAXED);
}

namespace {
// Calls f(first, end) for each part of the page range that is in one leaf.
template <typename F>
void for_each_leaf(uintptr_t first, uintptr_t end, const F& f) {
  while (first < end) {
    uintptr_t part_end = (first | (PageMap::kLeafEntries - 1)) + 1;
    if (part_end > end) part_end = end;
    f(first, part_end);
    first = part_end;
  }
}
}  // namespace

void PageMap::set(uintptr_t start, size_t bytes, const Span* span) {
  DCHECK(bytes != 0 && (start | bytes) % kPageBytes == 0);
  if (window.contains(start)) {
    window.set(window.page_of(reinterpret_cast<void*>(start)), bytes >> kPageShift, span);
    return;
  }
  uint64_t entry = reinterpret_cast<uintptr_t>(span) - reinterpret_cast<uintptr_t>(&foreign_span);
  for_each_leaf(start >> kPageShift, (start + bytes) >> kPageShift,
                [&](uintptr_t first, uintptr_t end) { set_in_leaf(first, end, entry); });
}

void PageMap::set_free(uintptr_t start, size_t bytes) { set(start, bytes, &free_span); }

void PageMap::set_foreign(uintptr_t start, size_t bytes) { set(start, bytes, &foreign_span); }

// `first` and `end` are pages of one group, counted within the leaf. The mark is cleared only if
// the range covers the whole group: otherwise other ranges have the rest.
void PageMap::mark_group_foreign(Leaf* leaf, uintptr_t first, uintptr_t end) {
  DCHECK(first < end && first >> kGroupBits == (end - 1) >> kGroupBits);
  uintptr_t group = first >> kGroupBits;
  uint64_t* word = &leaf->nonforeign_groups[group >> kGroupBits];
  uint64_t mark = uint64_t{1} << (group & ((1 << kGroupBits) - 1));
  if ((__atomic_load_n(word, __ATOMIC_RELAXED) & mark) == 0) return;
  for (uintptr_t page = first; page < end; page++) {
    if (__atomic_load_n(&leaf->entries[page], __ATOMIC_RELAXED) != 0)
      __atomic_store_n(&leaf->entries[page], 0, __ATOMIC_RELAXED);
  }
  if (end - first == uintptr_t{1} << kGroupBits) __atomic_fetch_and(word, ~mark, __ATOMIC_RELAXED);
}

void PageMap::mark_foreign(uintptr_t start, size_t bytes) {
  // Pages.
  constexpr uintptr_t kGroup = uintptr_t{1} << kGroupBits, kWord = kGroup << kGroupBits;
  DCHECK((start | bytes) % kPageBytes == 0);
  window.mark_foreign(start, bytes);
  for_each_leaf(
      start >> kPageShift, (start + bytes) >> kPageShift, [&](uintptr_t from, uintptr_t to) {
        Leaf* leaf = leaf_of(from);
        if (leaf == nullptr) return;
        uintptr_t end = ((to - 1) & (kLeafEntries - 1)) + 1;
        for (uintptr_t page = from & (kLeafEntries - 1); page < end;) {
          if (__atomic_load_n(&leaf->nonforeign_groups[page / kWord], __ATOMIC_RELAXED) == 0) {
            page = (page | (kWord - 1)) + 1;
            continue;
          }
          uintptr_t group_end = (page | (kGroup - 1)) + 1;
          if (group_end > end) group_end = end;
          mark_group_foreign(leaf, page, group_end);
          page = group_end;
        }
      });
}

}  // namespace seemalloc::pages

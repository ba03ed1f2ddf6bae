#include "core/pages/page_map.h"

#include "core/os/os.h"

namespace seemalloc::pages {

namespace {
Lock leaf_lock;
}  // namespace

constinit Span foreign_span{.owner_ = Span::kNobody, .kind = SpanKind::kForeign};
constinit Span free_span{.owner_ = Span::kNobody, .kind = SpanKind::kFree};
constinit PageMap page_map;  // all zero, so it costs nothing in the file

Lock& PageMap::grow_lock() { return leaf_lock; }

bool PageMap::reserve(uintptr_t start, size_t bytes) {
  if (window.has_entry(start)) return true;
  uintptr_t first = (start >> kPageShift) >> kLeafBits;
  uintptr_t last = ((start + bytes - 1) >> kPageShift) >> kLeafBits;
  if (last >> kRootBits != 0) return false;
  for (uintptr_t i = first; i <= last; i++) {
    if (__atomic_load_n(&root_[i], __ATOMIC_RELAXED) != 0) continue;
    LockGuard guard(leaf_lock);
    if (__atomic_load_n(&root_[i], __ATOMIC_RELAXED) != 0) continue;
    void* leaf = os::map(kLeafEntries * sizeof(uint64_t), os::Reason::kPageMap);
    if (leaf == nullptr) return false;
    leaf_bytes_.fetch_add(kLeafEntries * sizeof(uint64_t), std::memory_order_relaxed);
    __atomic_store_n(&root_[i], reinterpret_cast<uintptr_t>(leaf) - reinterpret_cast<uintptr_t>(this), __ATOMIC_RELEASE);
  }
  return true;
}

void PageMap::store(uintptr_t page, uint64_t entry) {
  uint64_t leaf = __atomic_load_n(&root_[page >> kLeafBits], __ATOMIC_RELAXED);
  uint64_t* entries = reinterpret_cast<uint64_t*>(reinterpret_cast<uintptr_t>(this) + leaf);
  __atomic_store_n(&entries[page & (kLeafEntries - 1)], entry, __ATOMIC_RELAXED);
}

void PageMap::set(uintptr_t start, size_t bytes, const Span* span) {
  if (window.contains(start)) {
    window.set(window.page_of(reinterpret_cast<void*>(start)), bytes >> kPageShift, span);
    return;
  }
  uint64_t entry = reinterpret_cast<uintptr_t>(span) - reinterpret_cast<uintptr_t>(&foreign_span);
  uintptr_t end = (start + bytes) >> kPageShift;
  for (uintptr_t page = start >> kPageShift; page < end; page++) store(page, entry);
}

void PageMap::set_free(uintptr_t start, size_t bytes) { set(start, bytes, &free_span); }

void PageMap::set_foreign(uintptr_t start, size_t bytes) { set(start, bytes, &foreign_span); }

void PageMap::forget(uintptr_t start, size_t bytes) {
  uintptr_t end = (start + bytes) >> kPageShift;
  for (uintptr_t page = start >> kPageShift; page < end; page++) {
    uintptr_t address = page << kPageShift;
    if (window.contains(address)) {
      window.set(window.page_of(reinterpret_cast<void*>(address)), 1, &foreign_span);
    } else if (__atomic_load_n(&root_[page >> kLeafBits], __ATOMIC_RELAXED) == 0) {
      page |= kLeafEntries - 1;  // no entries in all of this leaf
    } else if (span_of(reinterpret_cast<void*>(address)) != &foreign_span) {
      store(page, 0);
    }
  }
}

}  // namespace seemalloc::pages

#include "core/pages/span/window.h"

#include "core/base/check.h"
#include "core/os/kernel/memory.h"
#include "core/os/runtime/arena.h"
#include "core/os/runtime/scratch.h"

namespace seemalloc::pages {

namespace {
constexpr size_t kMapStepBytes = 64 * KiB;  // entries for 64 MiB
constexpr size_t kMinDistance = 4 * GiB;
constexpr uintptr_t kMinTop = 64 * GiB;

// Returns a region of the process's window, for records when the kernel refuses another mapping.
void* region_for_records(size_t bytes, size_t* got) {
  if (bytes > kRegionBytes) return nullptr;
  *got = kRegionBytes;
  // Not traced: records may be needed where little stack is left.
  bool inner_before = os::in_nested_call;
  os::in_nested_call = true;
  void* region = reinterpret_cast<void*>(window.map_region());
  os::in_nested_call = inner_before;
  return region;
}
}  // namespace

constinit Window window;

void Window::set(size_t page, size_t count, const Span* span) {
  DCHECK((page + count) * sizeof(Span*) <= map_bytes());
  for (size_t i = page; i < page + count; i++)
    __atomic_store_n(&spans_[i], const_cast<Span*>(span), __ATOMIC_RELAXED);
}

void Window::mark_foreign(uintptr_t start, size_t bytes) {
  uintptr_t base = racy_load(base_);
  if (base == kNoBase) return;
  uintptr_t end = base + (pages() << kPageShift);
  uintptr_t from = start > base ? start : base, to = start + bytes < end ? start + bytes : end;
  if (from < to) set((from - base) >> kPageShift, (to - from) >> kPageShift, &foreign_span);
}

// Chooses the base: an eighth of the address space below the place where the kernel would map a
// region, which leaves as much room for others; nearer if that is not available (a sanitizer's
// shadow).
bool Window::place_locked() {
  DCHECK(lock_.is_held());
  if (base_ != kNoBase) return true;
  if (placement_forbidden_) return false;
  void* probe = os::map(kRegionBytes, os::Reason::kPageMap);
  if (probe == nullptr) return false;
  os::unmap(probe, kRegionBytes, os::Reason::kPageMap);
  uintptr_t top = round_down(reinterpret_cast<uintptr_t>(probe), kRegionBytes);
  // Mappings are placed from low addresses upwards (valgrind).
  if (top < kMinTop) top = kMinTop;
  for (size_t distance = top / 8; distance >= kMinDistance; distance /= 8) {
    uintptr_t base = round_down(top - distance, kRegionBytes);
    size_t pages = round_down(distance / 2, kRegionBytes) / kPageBytes;
    uintptr_t map = round_down(base - pages * sizeof(Span*), kMapStepBytes);
    if (!os::map_at(map, kMapStepBytes, os::Reason::kPageMap)) continue;
    map_bytes_.store(kMapStepBytes, std::memory_order_relaxed);
    max_pages_ = pages;
    __atomic_store_n(&spans_, reinterpret_cast<Span**>(map), __ATOMIC_RELAXED);
    __atomic_store_n(&base_, base, __ATOMIC_RELEASE);
    if (this == &window) os::arena_fallback = region_for_records;
    return true;
  }
  return false;
}

// Adds the entries of one region.
bool Window::add_region_locked() {
  DCHECK(lock_.is_held());
  DCHECK(pages_ % kPagesPerRegion == 0 && pages_ <= max_pages_);
  if (pages_ + kPagesPerRegion > max_pages_) return false;
  size_t have = map_bytes();
  if ((pages_ + kPagesPerRegion) * sizeof(Span*) > have) {
    if (!os::map_after(reinterpret_cast<uintptr_t>(spans_) + have, kMapStepBytes,
                       os::Reason::kPageMap))
      return false;
    map_bytes_.store(have + kMapStepBytes, std::memory_order_relaxed);
  }
  set(pages_, kPagesPerRegion, &foreign_span);
  __atomic_store_n(&pages_, pages_ + kPagesPerRegion, __ATOMIC_RELEASE);
  return true;
}

// A huge block of ours in a hole of the window has only one entry, where it starts.
bool Window::is_retained(size_t page) const {
  return span_at(page + 1) == &free_span && span_at(page + 2) == &free_span;
}

uintptr_t Window::commit_region_locked() {
  DCHECK(first_free_hint_ + kPagesPerRegion <= pages_ &&
         span_at(first_free_hint_) == &foreign_span);
  uintptr_t start = base_ + first_free_hint_ * kPageBytes;
  set(first_free_hint_, kPagesPerRegion, &free_span);
  first_free_hint_ += kPagesPerRegion;
  return start;
}

uintptr_t Window::map_region() {
  LockGuard guard(lock_);
  if (!place_locked()) return 0;
  DCHECK(first_free_hint_ % kPagesPerRegion == 0 && first_free_hint_ <= pages_);
  while (first_free_hint_ < pages_ && span_at(first_free_hint_) != &foreign_span)
    first_free_hint_ += kPagesPerRegion;
  if (first_free_hint_ == pages_ && !add_region_locked()) return 0;
  uintptr_t start = base_ + first_free_hint_ * kPageBytes;
  if (is_retained(first_free_hint_)) return commit_region_locked();
  bool beside_ours = first_free_hint_ != 0 && span_at(first_free_hint_ - 1) != &foreign_span;
  bool mapped = beside_ours ? os::map_after(start, kRegionBytes, os::Reason::kGrowth)
                            : os::map_at(start, kRegionBytes, os::Reason::kGrowth);
  return mapped ? commit_region_locked() : 0;
}

void Window::skip_place() {
  LockGuard guard(lock_);
  if (first_free_hint_ < pages_) first_free_hint_ += kPagesPerRegion;
}

void Window::unmap_region(uintptr_t start, os::Reason reason) {
  LockGuard guard(lock_);
  DCHECK(start % kRegionBytes == 0 && contains(start));
  size_t page = (start - base_) >> kPageShift;
  set(page, kPagesPerRegion, &foreign_span);
  void* region = reinterpret_cast<void*>(start);
  if (!os::unmap(region, kRegionBytes, reason)) {
    if (!os::purge(region, kRegionBytes, reason)) return;
    set(page + 1, kPagesPerRegion - 1, &free_span);  // is_retained()
  }
  if (page < first_free_hint_) first_free_hint_ = page;
}

bool Window::has_entry(uintptr_t start) {
  LockGuard guard(lock_);
  // The window is placed before anything is entered outside, so nothing outside is ever where the
  // window will be.
  if (!place_locked()) placement_forbidden_ = true;
  size_t page = (start - base_) >> kPageShift;
  if (page < pages_) return true;
  if (page < max_pages_) max_pages_ = page;
  return false;
}

}  // namespace seemalloc::pages

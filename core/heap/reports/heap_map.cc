#include "core/heap/reports/heap_map.h"

#include "core/heap/spans/remote_batch.h"
#include "core/heap/thread/size_class.h"
#include "core/os/kernel/memory.h"
#include "core/pages/huge/huge.h"
#include "core/pages/span/page_map.h"

namespace seemalloc::heap {

using pages::Region;
using pages::SpanKind;
using pages::SpanState;

namespace {

// Reads a span without its owner's cooperation and makes the values consistent with each other.
SEEMALLOC_NO_TSAN MapPart copy_span(const Region& region, const Span* span) {
  MapPart part{};
  part.first_page = static_cast<uint16_t>(region.page_of(span->start));
  part.pages = static_cast<uint16_t>(span->bytes >> kPageShift);
  part.start = span->start;
  part.capacity = part.carved = part.live = 1;
  if (span->kind == SpanKind::kLarge) {
    part.kind = PartKind::kLarge;
    part.live_bytes = span->bytes;
    part.sample_id = span->sample_id;
    return part;
  }
  if (span->kind == SpanKind::kCachedLarge) {
    part.kind = PartKind::kKept;
    part.live = 0;
    return part;
  }
  part.kind = span->kind == SpanKind::kSampled ? PartKind::kSampled : PartKind::kSmall;
  part.block_bytes = span->block_bytes;
  part.capacity = span->capacity;
  part.carved = span->carved < part.capacity ? span->carved : part.capacity;
  uint32_t holes = span->hole_blocks(), counted = span->live_acquire();
  part.live = counted < holes ? 0 : counted - holes;
  // Also for spans whose countdown is disabled (Span::kNever).
  if (part.live > part.carved) part.live = part.carved;
  part.hole_pages = span->holes;
  part.live_bytes = size_t{part.live} * part.block_bytes;
  if (part.kind == PartKind::kSampled) {
    size_t most = part.live_bytes;
    part.live_bytes = span->sampled_bytes() < most ? span->sampled_bytes() : most;
    return part;
  }
  part.state = span->state;
  part.owned = reinterpret_cast<uintptr_t>(span->owner_acquire()) != Span::kNoOwner;
  uint32_t returned = remote_count(span->remote.load(std::memory_order_relaxed));
  part.returned = returned < part.live ? returned : part.live;
  // The spans of a heap get a new time at each scan for holes, so they do not count as waiting.
  part.is_waiting = part.state == SpanState::kAvailable && !part.owned;
  part.since = span->hole_scan.since;
  part.home = span->home();
  return part;
}

PartKind free_page_kind(const Region& region, unsigned page) {
  if (region.used.test(page)) return PartKind::kTaken;
  if (region.is_dirty(page, 1)) return PartKind::kDirty;
  if (region.lazy.test(page)) return PartKind::kLazy;
  if (region.purged_recently.test(page) || region.purged_last_window.test(page))
    return PartKind::kPurged;
  return PartKind::kClean;
}

MapPart copy_free_run(const Region& region, unsigned page, unsigned end) {
  MapPart part{};
  part.first_page = static_cast<uint16_t>(page);
  part.kind = free_page_kind(region, page);
  unsigned behind = page + 1;
  while (behind < end && free_page_kind(region, behind) == part.kind) behind++;
  part.pages = static_cast<uint16_t>(behind - page);
  part.start = region.address_of(page);
  return part;
}

uint16_t& page_count_of(RegionMap& map, PartKind kind) {
  switch (kind) {
    case PartKind::kTaken: return map.taken;
    case PartKind::kDirty: return map.dirty;
    case PartKind::kLazy: return map.lazy;
    case PartKind::kPurged: return map.purged;
    case PartKind::kClean: return map.clean;
    default: return map.used;
  }
}

void add_span_bytes(RegionMap& map, const MapPart& part) {
  size_t bytes = size_t{part.pages} << kPageShift;
  map.spans++;
  size_t live = part.live_bytes;
  size_t holes = static_cast<size_t>(__builtin_popcount(part.hole_pages)) * os::page_bytes();
  if (holes > bytes - live) holes = bytes - live;
  map.live_bytes += live;
  map.hole_bytes += holes;
  map.free_bytes += bytes - live - holes;
}

// Numbers of pages by class, to find the class with the most; large blocks come last.
struct ClassPages {
  uint16_t pages[kClassCount + 1] = {};
  void add(const MapPart& part) {
    unsigned place = part.block_bytes == 0 ? kClassCount : class_of(part.block_bytes);
    pages[place] = static_cast<uint16_t>(pages[place] + part.pages);
  }
  uint32_t main_class_bytes() const {
    unsigned most = kClassCount;
    for (unsigned i = 0; i < kClassCount; i++) {
      if (pages[i] > pages[most]) most = i;
    }
    return most == kClassCount ? 0 : kClasses[most].bytes;
  }
};

// Returns the span that begins at the page; null if there is none.
SEEMALLOC_NO_TSAN const Span* span_at(const Region& region, unsigned page) {
  uintptr_t address = region.address_of(page);
  const Span* span = pages::page_map.span_of(reinterpret_cast<void*>(address));
  if (span->kind == SpanKind::kFree || span->kind == SpanKind::kForeign || span->start != address)
    return nullptr;
  return (span->bytes >> kPageShift) <= kPagesPerRegion - page ? span : nullptr;
}

// Returns the first page after `page` at which a span begins, or the region's end.
unsigned end_of_gap(const Region& region, unsigned page) {
  do page++;
  while (page < kPagesPerRegion && (!region.used.test(page) || span_at(region, page) == nullptr));
  return page;
}

}  // namespace

void HeapMapWalk::copy(void* context, const Region& region) {
  HeapMapWalk& walk = *static_cast<HeapMapWalk*>(context);
  if (region.base < walk.from_ || region.base >= walk.to_) return;
  if (walk.chosen_ != nullptr && !walk.chosen_(walk.context_)) return;
  RegionMap& map = *walk.out_;
  map.base = region.base;
  map.shard = region.shard;
  map.on_huge_page = region.on_huge_page;
  map.resting = region.resting;
  map.used = map.taken = map.dirty = map.lazy = map.purged = map.clean = map.spans = 0;
  map.live_bytes = map.free_bytes = map.hole_bytes = 0;
  map.part_count = 0;
  ClassPages classes;
  for (unsigned page = 0; page < kPagesPerRegion;) {
    const Span* span = region.used.test(page) ? span_at(region, page) : nullptr;
    MapPart part = span != nullptr ? copy_span(region, span)
                                   : copy_free_run(region, page, end_of_gap(region, page));
    uint16_t& pages = page_count_of(map, part.kind);
    pages = static_cast<uint16_t>(pages + part.pages);
    if (span != nullptr) {
      add_span_bytes(map, part);
      classes.add(part);
    }
    if (walk.with_parts_) map.parts[map.part_count++] = part;
    page += part.pages;
  }
  map.main_class_bytes = classes.main_class_bytes();
  walk.found_ = true;
}

bool HeapMapWalk::next() {
  found_ = false;
  while (walk_.next(copy, this)) {
    if (found_) return true;
  }
  return false;
}

namespace {
struct HugeWalk {
  uintptr_t from, to;
  void (*f)(void* context, const HugePart& part);
  void* context;
};

SEEMALLOC_NO_TSAN void forward(void* context, Span* span) {
  const HugeWalk& walk = *static_cast<HugeWalk*>(context);
  if (span->start < walk.from || span->start >= walk.to) return;
  walk.f(walk.context,
         HugePart{span->start, span->bytes, size_t{span->capacity} << kPageShift, span->sample_id});
}
}  // namespace

void for_each_huge_part(uintptr_t from, uintptr_t to,
                        void (*f)(void* context, const HugePart& part), void* context) {
  HugeWalk walk{from, to, f, context};
  pages::visit_huge_spans(forward, &walk);
}

}  // namespace seemalloc::heap

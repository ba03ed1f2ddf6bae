#include "core/heap/slow_paths/large.h"

#include <atomic>

#include "core/base/check.h"
#include "core/heap/maintenance/housekeeping.h"
#include "core/heap/thread/size_class.h"
#include "core/pages/huge/huge.h"
#include "core/pages/page_heap/page_heap.h"
#include "core/pages/span/region.h"

namespace seemalloc::heap {

using pages::SpanKind;

size_t large_bytes(size_t bytes) { return round_up(bytes, kPageBytes); }

Span* allocate_large(unsigned shard, size_t bytes, size_t alignment) {
  DCHECK(bytes != 0 && is_power_of_two(alignment) && shard < pages::kMaxShards);
  size_t page_count = pages_for(bytes);
  size_t alignment_pages = alignment <= kPageBytes ? 1 : alignment / kPageBytes;
  if (page_count > pages::kMaxRegionRunPages || alignment_pages > pages::kMaxRegionRunPages) {
    return pages::allocate_huge(bytes, alignment);
  }
  Span* span = pages::allocate_run(shard, page_count, alignment_pages, SpanKind::kLarge);
  // If no region has a run, and none can be mapped, a single mapping may still be possible.
  if (span == nullptr) return pages::allocate_huge(bytes, alignment);
  span->set_live(1);
  pages::publish(span);
  return span;
}

void free_large(Span* span) {
  DCHECK(span->kind == SpanKind::kLarge || span->kind == SpanKind::kHuge);
  DCHECK(span->sample_id == 0);
  if (span->kind == SpanKind::kHuge) {
    pages::release_huge(span);
  } else {
    pages::release(span);
  }
  tick();
}

namespace {

std::atomic<int64_t> resized{0};

bool resize(Span* span, size_t bytes) {
  DCHECK(span->kind == SpanKind::kLarge || span->kind == SpanKind::kHuge);
  size_t page_count = pages_for(bytes);
  size_t have = span->bytes >> kPageShift;
  if (span->kind == SpanKind::kHuge) {
    if (page_count <= pages::kMaxRegionRunPages) return page_count == have;
    return pages::resize_huge(span, bytes);
  }
  if (page_count == have) return true;
  if (page_count > pages::kMaxRegionRunPages) return false;
  if (page_count > have) return pages::try_extend(span, page_count);
  if (bytes <= kMaxSmallBytes) return false;
  pages::shrink(span, page_count);
  return true;
}

}  // namespace

bool resize_large(Span* span, size_t bytes) {
  size_t before = span->bytes;
  if (!resize(span, bytes)) return false;
  if (span->bytes != before)
    resized.fetch_add(static_cast<int64_t>(span->bytes - before), std::memory_order_relaxed);
  return true;
}

int64_t net_resized_bytes() { return resized.load(std::memory_order_relaxed); }

}  // namespace seemalloc::heap

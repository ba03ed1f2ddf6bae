#include "core/heap/spans/span_holes.h"

#include "core/heap/thread/thread_cache.h"

namespace seemalloc::heap {

using pages::SpanState;

std::atomic<uint32_t> hole_epoch{1};
std::atomic<Span*> detached_span{nullptr};

namespace {
std::atomic<uint64_t> refilled_bytes{0};
}  // namespace

bool may_have_holes(const Span* span) {
  size_t free_bytes = size_t{listed_blocks(span)} * span->block_bytes;
  return free_bytes >= 2 * os::page_bytes() && worth_rescan(span);
}

void note_scanned(Span* span) {
  uint32_t live = span->live_acquire() - span->hole_blocks();
  span->hole_scan.min_free_blocks = listed_blocks(span) + (live < 8 ? 1 : live / 8);
}

uint32_t refill_hole(Span* span, Block** first) {
  DCHECK(span->holes != 0 && span->local_free == nullptr);
  DCHECK(span->state == SpanState::kCurrent && span->owner() == thread_cache.heap);
  unsigned page = lowest_page(span->holes);
  BlockRange range = blocks_starting_in(span, page);
  DCHECK(range.end <= span->carved && range.end - range.first <= span->hole_blocks());
  CHECK(range.first < range.end);
  for (uint32_t i = range.first; i + 1 < range.end; i++)
    span->block_at(i)->next = span->block_at(i + 1);
  span->block_at(range.end - 1)->next = nullptr;
  *first = span->block_at(range.first);
  span->remove_holes(uint32_t{1} << page, range.end - range.first);
  refilled_bytes.fetch_add(os::page_bytes(), std::memory_order_relaxed);
  return range.end - range.first;
}

uint64_t refilled_hole_bytes() { return refilled_bytes.load(std::memory_order_relaxed); }

}  // namespace seemalloc::heap

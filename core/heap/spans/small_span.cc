#include "core/heap/spans/small_span.h"

#include "core/base/check.h"
#include "core/heap/spans/homes.h"
#include "core/heap/thread/sample_growth.h"
#include "core/heap/thread/size_class.h"
#include "core/heap/thread/thread_heap.h"
#include "core/os/kernel/memory.h"
#include "core/pages/page_heap/page_heap.h"
#include "core/pages/span/region_count.h"

namespace seemalloc::heap {

using pages::SpanKind;
using pages::SpanState;

namespace {
// Lists are linked through the blocks, so every OS page of a carved span is written if each page
// has the start of a block. In all heaps together, the parts of spans that are not carved yet are
// only a small part of the regions.
bool written_everywhere(const SizeClass& c) {
  constexpr size_t kMinRegions = 32, kRegionsPerHeap = 10;
  return c.bytes <= os::page_bytes() &&
         pages::region_count() >= kMinRegions + kRegionsPerHeap * active_heaps();
}
}  // namespace

Span* new_small_span(unsigned shard, unsigned size_class, unsigned growth, SpanKind kind) {
  DCHECK(size_class < kClassCount);
  DCHECK(kind == SpanKind::kSmall || kind == SpanKind::kSampled);
  const SizeClass& c = kClasses[size_class];
  // Samples are few: a span for one block is enough.
  size_t page_count = kind == SpanKind::kSampled ? pages_for(c.bytes) : c.min_pages;
  size_t most = c.bytes < KiB ? kMaxSpanPages / 2 : kMaxSpanPages;
  while (growth-- != 0 && page_count * 2 <= most) page_count *= 2;
  bool dense = kind == SpanKind::kSmall && page_count * 2 > most && written_everywhere(c);
  os::ScopedCallSizeClass label(size_class);
  Span* span = pages::allocate_run(shard, page_count, 1, kind, dense);
  if (span == nullptr && page_count > c.min_pages)
    span = pages::allocate_run(shard, c.min_pages, 1, kind);
  if (span == nullptr) return nullptr;
  span->size_class = static_cast<uint8_t>(size_class);
  span->set_block_bytes(c.bytes);
  DCHECK(span->capacity != 0 && span->carved == 0 && span->is_empty());
  if (kind == SpanKind::kSmall) on_span_created(span);
  check_heap_growth();
  return span;
}

Block* carve_and_link(Span* span, uint32_t count, Block* behind) {
  DCHECK(count != 0 && count <= span->capacity - span->carved);
  Block* first = span->block_at(span->carved);
  Block* block = first;
  for (uint32_t i = 1; i < count; i++) {
    Block* next = reinterpret_cast<Block*>(reinterpret_cast<uintptr_t>(block) + span->block_bytes);
    block->next = next;
    block = next;
  }
  block->next = behind;
  span->carved += count;
  return first;
}

uint32_t carve_blocks(Span* span, Block** first) {
  DCHECK(span->carved < span->capacity);
  // Doubles each time, so memory that is not needed stays untouched.
  uint32_t count = kClasses[span->size_class].max_blocks_per_extension;
  if (count < span->carved) count = span->carved;
  if (count > span->capacity - span->carved) count = span->capacity - span->carved;
  *first = carve_and_link(span, count, nullptr);
  return count;
}

void release_empty_span(Span* span) {
  DCHECK(span->is_empty());
  DCHECK(span->kind == SpanKind::kSmall && span->state != SpanState::kCurrent);
  DCHECK(span->prev == nullptr && span->next == nullptr);
  DCHECK(span->remote.load(std::memory_order_relaxed) == 0);
  on_span_released(span);
  span->clear_owner();
  pages::release(span);
}

}  // namespace seemalloc::heap

#include "core/heap/slow_paths/remote.h"

#include "core/base/check.h"
#include "core/heap/maintenance/housekeeping.h"
#include "core/heap/spans/central.h"
#include "core/heap/spans/publish.h"
#include "core/heap/thread/size_class.h"
#include "core/heap/thread/thread_cache.h"
#include "core/pages/span/page_map.h"

namespace seemalloc::heap {

namespace {
// Returns true if the owner has not drained its pending spans for a while: it sleeps, or does not
// allocate.
bool owner_has_backlog(const Block* block) {
  constexpr uint32_t kBacklog = 16;
  const void* owner = pages::page_map.span_of(block)->owner_acquire();
  return reinterpret_cast<uintptr_t>(owner) != Span::kNoOwner &&
         static_cast<const ThreadHeap*>(owner)->pending_count.load(std::memory_order_relaxed) >=
             kBacklog;
}

void publish_gathered(ThreadHeap& heap, unsigned size_class, bool offer) {
  Block* blocks[kMaxGatheredBlocks];
  uint32_t count = take_gathered(heap, size_class, blocks);
  count_remote_frees(&heap, count);
  if (!offer || !owner_has_backlog(blocks[0]) || !central_put_batch(size_class, blocks, count)) {
    if (publish_blocks(&heap, blocks, count)) tick();
  }
}
}  // namespace

namespace {
void publish_one(ThreadHeap* heap, Span* span, Block* block) {
  if (publish_remote(heap, span, &block, 1)) tick();
}
}  // namespace

void free_remote(ThreadHeap* heap, Span* span, Block* block) {
  DCHECK(heap == nullptr || heap == thread_cache.heap);
  DCHECK(span->contains(block) && span->is_block_start(block));
  // A span without an owner becomes ours (rule 5), so its further frees are fast.
  bool unowned =
      reinterpret_cast<uintptr_t>(span->owner()) == Span::kNoOwner && !span->blocks_are_shared();
  if (heap == nullptr || unowned) {
    count_remote_frees(heap, 1);
    return publish_one(heap, span, block);
  }
  unsigned size_class = span->size_class;
  ClassState& cs = heap->body->classes[size_class];
  // Two steps cost almost nothing, all of them would be felt; but blocks of shared spans are rare.
  const Block* same = cs.gathered;
  for (uint32_t looked = span->blocks_are_shared() ? kMaxGatheredBlocks : 2;
       same != nullptr && looked != 0; looked--, same = same->next) {
    if (same == block) fatal("double free", block);
  }
  if (span->blocks_are_shared() &&
      heap->gathered_bytes + span->block_bytes > kMaxSharedBlockBytes) {
    count_remote_frees(heap, 1);
    return publish_one(heap, span, block);
  }
  block->next = cs.gathered;
  cs.gathered = block;
  uint32_t count = ++cs.gathered_count;
  DCHECK(count <= kMaxGatheredBlocks);
  heap->gathered_bytes += span->block_bytes;
  if (count >= kMaxGatheredBlocks || size_t{count} * span->block_bytes > kMaxGatheredClassBytes) {
    publish_gathered(*heap, size_class, true);
  } else if (heap->gathered_bytes > kMaxGatheredBytes) {
    flush_gathered(*heap);
  }
}

namespace {
// Returns false if the program has written to a freed block.
bool is_block_of(unsigned size_class, const Block* block) {
  const Span* span = pages::page_map.span_of(block);
  return span->kind == pages::SpanKind::kSmall && span->size_class == size_class &&
         span->is_block_start(block);
}
}  // namespace

uint32_t take_gathered(ThreadHeap& heap, unsigned size_class, Block** blocks) {
  ClassState& cs = heap.body->classes[size_class];
  uint32_t count = cs.gathered_count;
  Block* first = cs.gathered;
  DCHECK(heap.gathered_bytes >= size_t{count} * kClasses[size_class].bytes);
  heap.gathered_bytes -= size_t{count} * kClasses[size_class].bytes;
  cs.gathered = nullptr;
  cs.gathered_count = 0;
  Block* block = first;
  uint32_t taken = 0;
  CHECK(count <= kMaxGatheredBlocks);
  for (; block != nullptr && taken < count; block = block->next) {
    if (!is_block_of(size_class, block)) fatal("corrupted free list", first);
    blocks[taken++] = block;
  }
  // A block that is there twice makes a ring of the list, or cuts it.
  if (block != nullptr || taken != count) fatal("double free", first);
  return count;
}

void flush_gathered(ThreadHeap& heap) {
  for (unsigned c = 0; c < kClassCount; c++) {
    if (heap.body->classes[c].gathered_count != 0) publish_gathered(heap, c, false);
  }
}

}  // namespace seemalloc::heap

#include "core/heap/reports/statistics.h"

#include "core/heap/maintenance/orphaned_heaps.h"
#include "core/heap/maintenance/purge_all.h"
#include "core/heap/maintenance/registry.h"
#include "core/heap/slow_paths/large.h"
#include "core/heap/spans/central.h"
#include "core/heap/spans/publish.h"
#include "core/heap/spans/remote_batch.h"
#include "core/heap/spans/sampled.h"
#include "core/heap/spans/span_holes.h"
#include "core/heap/thread/thread_cache.h"
#include "core/heap/thread/thread_heap.h"
#include "core/pages/huge/huge.h"
#include "core/pages/page_heap/page_heap.h"
#include "core/pages/span/page_map.h"

namespace seemalloc::heap {

using pages::SpanKind;

namespace {

// Length of a list from which its thread may be popping. Each pointer is checked to be a block of
// the class before it is followed.
SEEMALLOC_NO_TSAN uint32_t list_length_racy(unsigned size_class, const Block* first) {
  constexpr uint32_t kMax = kMaxSpanPages * kPageBytes / 8;
  uint32_t length = 0;
  for (const Block* block = first; block != nullptr && length < kMax;
       block = __atomic_load_n(&block->next, __ATOMIC_RELAXED)) {
    const Span* span = pages::page_map.span_of(block);
    if (span->kind != SpanKind::kSmall || span->size_class != size_class ||
        !span->is_block_start(block))
      break;
    length++;
  }
  return length;
}

// The record may belong to another span by now, one that is about to be published.
SEEMALLOC_NO_TSAN void count_one(size_t& spans, size_t& bytes, const Span* span) {
  spans++;
  bytes += span->bytes;
}

SEEMALLOC_NO_TSAN void count_state(SpanStatistics& s, const Span* span, size_t live) {
  if (span->kind == SpanKind::kSampled) return count_one(s.sampled, s.sampled_bytes, span);
  if (reinterpret_cast<uintptr_t>(span->owner_acquire()) == Span::kNoOwner)
    return count_one(s.central, s.central_bytes, span);
  live != 0 ? count_one(s.owned, s.owned_bytes, span) : count_one(s.empty, s.empty_bytes, span);
}

SEEMALLOC_NO_TSAN void count_span(void* context, Span* span) {
  Statistics& s = *static_cast<Statistics*>(context);
  if (span->kind == SpanKind::kCachedLarge) {
    count_one(s.spans.cached_large, s.spans.cached_large_bytes, span);
    s.cached_bytes += span->bytes;
    return;
  }
  if (span->kind == SpanKind::kLarge || span->kind == SpanKind::kHuge) {
    s.large_spans++;
    s.large_bytes += span->bytes;
    s.live_bytes += span->bytes;
    return;
  }
  ClassStatistics& c = s.classes[span->size_class];
  size_t carved = span->carved;
  size_t remote = remote_count(span->remote.load(std::memory_order_relaxed));
  size_t live = span->live_acquire() - span->hole_blocks();
  if (live > carved) live = carved;
  if (remote > live) remote = live;
  count_one(c.spans, c.span_bytes, span);
  count_state(s.spans, span, live);
  // sampled_blocks() counts those of sampled spans.
  if (span->kind != SpanKind::kSampled) c.live += live - remote;
  c.cached += remote;
  c.free += carved - live;
}

// Blocks of thread free lists and stashes count as live in their spans: moves them to cached.
SEEMALLOC_NO_TSAN void count_heap(Statistics& s, ThreadHeap& heap) {
  s.heaps++;
  s.allocated_bytes += heap.allocated_bytes;
  s.realloc_copies += heap.realloc_copies.load(std::memory_order_relaxed);
  s.realloc_copied_bytes += heap.realloc_copied_bytes.load(std::memory_order_relaxed);
  HeapState state = heap.state.load(std::memory_order_relaxed);
  if (state == HeapState::kZombie) return;
  if (state == HeapState::kActive) s.live_heaps++;
  LockGuard guard(heap.slow_lock);  // keeps current spans in place and the thread from ending
  Block* lists[kClassCount];
  bool has_lists = copy_free_lists(heap, lists);
  for (unsigned i = 0; i < kClassCount; i++) {
    const ClassState& cs = heap.body->classes[i];
    size_t listed = has_lists ? list_length_racy(i, lists[i]) : 0;
    s.unused_list_bytes += (listed + (cs.sample_due != 0 ? 1 : 0)) * kClasses[i].bytes;
    listed += cs.stash_count + cs.gathered_count;
    ClassStatistics& c = s.classes[i];
    if (listed > c.live) listed = c.live;
    c.live -= listed;
    c.cached += listed;
    c.refills += refills_of(heap, i);
  }
}

}  // namespace

Statistics statistics() {
  Statistics s{};
  pages::for_each_span(count_span, &s);
  pages::for_each_huge_span(count_span, &s);
  {
    LockGuard guard(registry_lock());
    s.allocated_bytes = allocated_by_earlier_threads();
    s.unused_list_bytes = unused_bytes_of_ended_threads();
    for (ThreadHeap* heap = all_heaps(); heap != nullptr; heap = heap->next_all)
      count_heap(s, *heap);
  }
  for (unsigned i = 0; i < kClassCount; i++) {
    size_t listed = central_batch_blocks(i);
    if (listed > s.classes[i].live) listed = s.classes[i].live;
    s.classes[i].live -= listed;
    s.classes[i].cached += listed;
    s.classes[i].refills += flushed_refills(i);
    s.classes[i].live += sampled_blocks(i);
    s.live_bytes += s.classes[i].live * kClasses[i].bytes;
    s.cached_bytes += s.classes[i].cached * kClasses[i].bytes;
    s.free_bytes += s.classes[i].free * kClasses[i].bytes;
  }
  s.remote_frees = remote_frees();
  s.net_resized_bytes = net_resized_bytes();
  return s;
}

uint64_t freed_bytes(const Statistics& s) {
  auto bytes = [](uint64_t some) { return static_cast<int64_t>(some); };
  int64_t freed = bytes(s.allocated_bytes) - bytes(s.unused_list_bytes) + s.net_resized_bytes -
                  bytes(s.live_bytes);
  return freed > 0 ? static_cast<uint64_t>(freed) : 0;
}

namespace {

// Requires: the owner's slow_lock. The owner may be freeing.
SEEMALLOC_NO_TSAN void add_span(ThreadStatistics& t, const Span* span) {
  size_t carved = span->carved;
  size_t live = span->live_acquire();
  if (live > carved) live = carved;
  size_t in_holes = span->hole_blocks();  // free, and their pages are purged
  live -= in_holes < live ? in_holes : live;
  carved -= in_holes < carved ? in_holes : carved;
  if (carved > live)
    (live == 0 ? t.empty_bytes : t.free_bytes) += (carved - live) * span->block_bytes;
  t.live_bytes += live * span->block_bytes;
}

void add_spans(ThreadStatistics& t, const SpanList& list, const Span* but) {
  for (const Span* span = list.front(); span != nullptr; span = span->next) {
    if (span != but) add_span(t, span);
  }
}

SEEMALLOC_NO_TSAN ThreadStatistics statistics_of(ThreadHeap& heap) {
  ThreadStatistics t{};
  t.thread_id = heap.thread_id.load(std::memory_order_relaxed);
  t.remote_frees = heap.remote_frees.load(std::memory_order_relaxed);
  t.large_bytes = heap.body->large.bytes();
  LockGuard guard(heap.slow_lock);
  Block* lists[kClassCount];
  bool has_lists = copy_free_lists(heap, lists);
  for (unsigned i = 0; i < kClassCount; i++) {
    const ClassState& cs = heap.body->classes[i];
    size_t listed = (has_lists ? list_length_racy(i, lists[i]) : 0) + cs.stash_count;
    t.list_bytes += (listed + cs.gathered_count) * kClasses[i].bytes;
    t.refills += refills_of(heap, i);
    if (cs.current != nullptr) add_span(t, cs.current);
    add_spans(t, cs.available, cs.current);
    add_spans(t, cs.full, cs.current);
  }
  // Listed blocks of its own spans count as live there. Blocks of other threads' spans do not, and
  // are few.
  t.live_bytes -= t.list_bytes < t.live_bytes ? t.list_bytes : t.live_bytes;
  return t;
}

}  // namespace

uint64_t allocated_by_this_thread() {
  const ThreadHeap* mine = thread_cache.heap;
  if (mine == nullptr) return 0;
  uint64_t listed = 0;
  for (unsigned i = 0; i < kClassCount; i++) {
    uint64_t blocks = 0;
    for (const Block* block = thread_cache.heads[i]; block != nullptr; block = block->next)
      blocks++;
    listed += blocks * kClasses[i].bytes;
  }
  // Lists that came with the heap were handed out to the thread before. Their original length is
  // unknown, but they had at least the blocks that are left.
  uint64_t& inherited = mine->body->inherited_bytes;
  if (mine->allocated_bytes + inherited < listed) inherited = listed - mine->allocated_bytes;
  return mine->allocated_bytes + inherited - listed;
}

void for_each_thread(void (*f)(void* context, const ThreadStatistics& thread), void* context) {
  LockGuard guard(registry_lock());
  for (ThreadHeap* heap = all_heaps(); heap != nullptr; heap = heap->next_all) {
    if (heap->state.load(std::memory_order_relaxed) == HeapState::kActive)
      f(context, statistics_of(*heap));
  }
}

namespace {

// One bit per block of a span: an array of 2 KiB.
struct FreeMarks {
  uint64_t bits[kMaxSpanPages * kPageBytes / 8 / 64];

  bool mark(const Span* span, const Block* block) {
    size_t offset = reinterpret_cast<uintptr_t>(block) - span->start;
    if (offset >= span->bytes || offset % span->block_bytes != 0) return false;
    size_t index = offset / span->block_bytes;
    if (index >= span->carved || ((bits[index / 64] >> (index % 64)) & 1)) return false;
    bits[index / 64] |= uint64_t{1} << (index % 64);
    return true;
  }
  bool mark_holes(const Span* span) {
    uint32_t count = 0;
    for (uint32_t pages = span->holes; pages != 0; pages &= pages - 1) {
      BlockRange range = blocks_starting_in(span, lowest_page(pages));
      for (uint32_t i = range.first; i < range.end; i++, count++) {
        if (!mark(span, span->block_at(i))) return false;
      }
    }
    return count == span->hole_blocks();
  }
  bool mark_list(const Span* span, const Block* block, uint32_t* count) {
    for (; block != nullptr; block = block->next, ++*count) {
      if (!mark(span, block)) return false;
    }
    return true;
  }
};

struct BlockWalk {
  void (*f)(void* context, void* block, size_t bytes);
  void* context;
  bool sound;
};

// Marks the span's blocks in a thread's list. A list may have blocks of many spans.
bool mark_listed(FreeMarks& marks, const Span* span, const Block* block, uint32_t* count) {
  for (; block != nullptr; block = block->next) {
    if (!span->contains(block)) continue;
    if (!marks.mark(span, block)) return false;
    ++*count;
  }
  return true;
}

bool mark_remote_batches(FreeMarks& marks, const Span* span, Block* batch, uint32_t* count) {
  while (batch != nullptr) {
    Block* blocks[kMaxBatchBlocks];
    uint32_t here = read_batch(span, batch, blocks, &batch);
    if (here == 0) return false;
    for (uint32_t i = 0; i < here; i++) {
      if (!marks.mark(span, blocks[i])) return false;
    }
    *count += here;
  }
  return true;
}

bool mark_cached(FreeMarks& marks, const Span* span, uint32_t* count) {
  for (ThreadHeap* heap = all_heaps(); heap != nullptr; heap = heap->next_all) {
    const ClassState& cs = heap->body->classes[span->size_class];
    Block* list = nullptr;  // without the heap's lock: no heap changes hands during a walk
    if (copy_free_list(*heap, span->size_class, &list) && !mark_listed(marks, span, list, count))
      return false;
    if (!mark_listed(marks, span, cs.stash, count) || !mark_listed(marks, span, cs.gathered, count))
      return false;
  }
  return true;
}

void walk_span(void* context, Span* span) {
  BlockWalk& walk = *static_cast<BlockWalk*>(context);
  if (span->kind == SpanKind::kCachedLarge) return;
  if (span->kind == SpanKind::kLarge || span->kind == SpanKind::kHuge) {
    walk.f(walk.context, reinterpret_cast<void*>(span->start), span->bytes);
    return;
  }
  FreeMarks marks{};
  uint32_t in_free_list = 0, cached = 0;
  uint64_t word = span->remote.load(std::memory_order_acquire);
  bool sound =
      marks.mark_list(span, span->local_free, &in_free_list) && in_free_list == span->free_blocks();
  sound = sound && marks.mark_holes(span);
  if (word != kUnowned)
    sound = sound && mark_remote_batches(marks, span, remote_first(word), &cached) &&
            cached == remote_count(word);
  sound = sound && (span->kind == SpanKind::kSampled || mark_cached(marks, span, &cached));
  if (!sound) {
    walk.sound = false;
    return;
  }
  for (uint32_t i = 0; i < span->carved; i++) {
    if ((marks.bits[i / 64] >> (i % 64)) & 1) continue;
    bool sampled = span->kind == SpanKind::kSampled;
    walk.f(walk.context, span->block_at(i),
           sampled ? sampled_block_bytes(span, span->block_at(i)) : span->block_bytes);
  }
}

}  // namespace

bool for_each_live_block(void (*f)(void* context, void* block, size_t bytes), void* context) {
  HousekeepingPause pause;
  if (!pause.has_no_workers()) return false;
  publish_central_lists(true);  // to where the walk finds them
  BlockWalk walk{f, context, true};
  pages::for_each_span(walk_span, &walk);
  pages::for_each_huge_span(walk_span, &walk);
  return walk.sound;
}

}  // namespace seemalloc::heap

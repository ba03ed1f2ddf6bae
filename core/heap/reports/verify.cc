#include "core/heap/reports/verify.h"

#include <arch_words.h>

#include "core/base/check.h"
#include "core/heap/spans/central.h"
#include "core/heap/spans/homes.h"
#include "core/heap/spans/remote_batch.h"
#include "core/heap/spans/sampled.h"
#include "core/heap/spans/span_holes.h"
#include "core/heap/thread/large_cache.h"
#include "core/heap/thread/thread_cache.h"
#include "core/os/runtime/scratch.h"
#include "core/pages/page_heap/verify.h"
#include "core/pages/span/page_map.h"

namespace seemalloc::heap {

using pages::page_map;
using pages::SpanKind;
using pages::SpanState;

namespace {

constexpr uint32_t kMaxBlocks = kMaxSpanPages * kPageBytes / 8;

// The free blocks of a span, a bit for each.
struct Marks {
  uint64_t bits[kMaxBlocks / 64];

  // False when it is marked already, or is no block.
  bool mark(const Span& span, const Block* block) {
    if (!span.is_carved_block(block)) return false;
    size_t number = (reinterpret_cast<uintptr_t>(block) - span.start) / span.block_bytes;
    uint64_t bit = uint64_t{1} << (number % 64);
    if ((bits[number / 64] & bit) != 0) return false;
    bits[number / 64] |= bit;
    return true;
  }
};

const char* verify_free_blocks(const Span& span, Marks& marks) {
  for (uint32_t word = 0; word * 64 < span.carved; word++) marks.bits[word] = 0;
  uint32_t listed = 0, in_holes = 0;
  for (const Block* block = span.local_free; block != nullptr; block = block->next, listed++) {
    if (!marks.mark(span, block))
      return "invariant span.2: a free block is carved, and on the list once";
  }
  if (listed != span.free_blocks())
    return "invariant span.2: each carved block that is not live is on the free list";
  for (uint32_t pages = span.holes; pages != 0; pages &= pages - 1) {
    BlockRange range = blocks_starting_in(&span, lowest_page(pages));
    for (uint32_t i = range.first; i < range.end; i++, in_holes++) {
      if (!marks.mark(span, span.block_at(i)))
        return "invariant span.2: no block in a hole is on the free list";
    }
  }
  return in_holes == span.hole_blocks()
             ? nullptr
             : "invariant span.1: hole_blocks are the blocks that start in holes";
}

bool has_no_owner(const Span& span) {
  return reinterpret_cast<uintptr_t>(span.owner_acquire()) == Span::kNoOwner;
}

}  // namespace

const char* verify_counts(const Span& span) {
  bool sampled = span.kind == SpanKind::kSampled;
  if (span.kind != SpanKind::kSmall && !sampled)
    return "invariant span.4: a span on a list of blocks' spans is one";
  if (span.size_class >= kClassCount || span.block_bytes != kClasses[span.size_class].bytes ||
      span.capacity != span.bytes / span.block_bytes || span.carved > span.capacity) {
    return "invariant span.4: block size and capacity are its class's and its pages', carved ≤ capacity";
  }
  // In this order: a remote block is live until the list is taken, which needs the lock that the
  // caller holds.
  uint64_t word = span.remote.load(std::memory_order_acquire);
  uint32_t live = span.live_acquire(), holes = span.hole_blocks();
  if (live > span.carved) return "invariant span.1: no more blocks are live than have been carved";
  if (live < holes || remote_count(word) > live - holes)
    return "invariant span.1: blocks in holes and remote blocks are live";
  if (word == kUnowned && !has_no_owner(span))
    return "invariant span.3: remote is kUnowned only while no thread owns the span";
  if (span.state == SpanState::kCurrent &&
      __atomic_load_n(&span.countdown, __ATOMIC_RELAXED) < Span::kNoCountdown) {
    return "invariant span.1: a current span's countdown does not reach zero";
  }
  return nullptr;
}

const char* verify_span(const Span& span) {
  if (const char* broken = verify_counts(span)) return broken;
  os::Scratch<Marks> marks;
  return marks ? verify_free_blocks(span, *marks) : nullptr;
}

namespace {

// Checks a heap's span. `exactly`: the caller is its owner; otherwise what holds at each moment.
const char* verify_owned(const ThreadHeap& heap, unsigned size_class, const Span& span,
                         SpanState state, bool exactly) {
  if (span.owner_acquire() != &heap) return "invariant thread_heap.1: a heap's spans are its own";
  if (span.size_class != size_class || span.state != state)
    return "invariant thread_heap.1: a span is on the list of its class and state";
  return exactly ? verify_span(span) : verify_counts(span);
}

const char* verify_spans(const ThreadHeap& heap, unsigned size_class, bool exactly) {
  const ClassState& cs = heap.body->classes[size_class];
  if (const char* broken = cs.available.verify()) return broken;
  if (const char* broken = cs.full.verify()) return broken;
  for (const Span* span = cs.available.front(); span != nullptr; span = span->next) {
    if (const char* broken = verify_owned(heap, size_class, *span, SpanState::kAvailable, exactly))
      return broken;
  }
  for (const Span* span = cs.full.front(); span != nullptr; span = span->next) {
    if (const char* broken = verify_owned(heap, size_class, *span, SpanState::kFull, exactly))
      return broken;
  }
  if (cs.current != nullptr) {
    if (const char* broken =
            verify_owned(heap, size_class, *cs.current, SpanState::kCurrent, exactly))
      return broken;
  }
  const Span* ready = racy_load(heap.body->local_refill_spans[size_class]);
  if (ready != nullptr && ready != cs.current)
    return "invariant thread_heap.2: ready is null or the current span";
  return cs.low_water <= cs.available.size()
             ? nullptr
             : "invariant thread_heap.3: low_water is no more than what is available";
}

// The length of a list of blocks of the class, of this span only if there is one; UINT32_MAX when
// it has others, or no end.
uint32_t list_length(unsigned size_class, const Span* of, const Block* first) {
  uint32_t length = 0;
  for (const Block* block = first; block != nullptr; block = block->next, length++) {
    const Span* span = page_map.span_of(block);
    bool fits = span->kind == SpanKind::kSmall && span->size_class == size_class &&
                span->is_block_start(block);
    if (!fits || (of != nullptr && span != of) || length == kMaxBlocks) return UINT32_MAX;
  }
  return length;
}

// Lists that the owner changes without a lock. Requires: the owner calls.
const char* verify_lists(const ThreadHeap& heap, unsigned size_class) {
  const ClassState& cs = heap.body->classes[size_class];
  const Span* of = cs.lists_not_from_current ? nullptr : cs.current;
  if (list_length(size_class, of, thread_cache.heads[size_class]) == UINT32_MAX) {
    return "invariant thread_heap.4: a thread free list has blocks of its class, and of the current span unless it is mixed";
  }
  if (list_length(size_class, of, cs.stash) != cs.stash_count)
    return "invariant thread_heap.4: the stash has stash_count blocks";
  if (cs.stash != nullptr && heap.body->local_refill_spans[size_class] != nullptr)
    return "invariant thread_heap.2: ready is null while there is a stash";
  if (cs.sample_due != 0 && cs.stash == nullptr)
    return "invariant thread_heap.4: a list that was cut for a sample has a rest";
  bool counted = cs.gathered_count <= kMaxGatheredBlocks &&
                 list_length(size_class, nullptr, cs.gathered) == cs.gathered_count;
  return counted ? nullptr
                 : "invariant thread_heap.5: gathered has gathered_count blocks of the class";
}

const char* verify_heap_locked(const ThreadHeap& heap) {
  bool is_owner = &heap == thread_cache.heap;
  size_t gathered_bytes = 0;
  for (unsigned c = 0; c < kClassCount; c++) {
    if (const char* broken = verify_spans(heap, c, is_owner)) return broken;
    if (!is_owner) continue;
    if (const char* broken = verify_lists(heap, c)) return broken;
    gathered_bytes += size_t{heap.body->classes[c].gathered_count} * kClasses[c].bytes;
  }
  if (!is_owner) return nullptr;
  if (gathered_bytes != heap.gathered_bytes)
    return "invariant thread_heap.5: gathered_bytes is the sum over the classes";
  return heap.body->large.verify();
}

}  // namespace

const char* verify_heap(ThreadHeap& heap) {
  if (!heap.slow_lock.try_lock()) return nullptr;
  const char* broken = verify_heap_locked(heap);
  heap.slow_lock.unlock();
  return broken;
}

const char* LargeCache::verify() {
  if (!lock_.try_lock_owner()) return nullptr;
  size_t bytes = last_ != nullptr ? last_->bytes : 0;
  bool sound = last_ == nullptr || last_->kind == SpanKind::kCachedLarge;
  for (size_t pages = 0; pages < kLists; pages++) {
    for (const Span* span = lists_[pages]; span != nullptr; span = span->next) {
      bool found = (filled_[pages / 64] >> (pages % 64) & 1) != 0;
      sound = sound && found && span->kind == SpanKind::kCachedLarge &&
              span->bytes == pages << kPageShift;
      bytes += span->bytes;
    }
  }
  sound = sound && bytes == bytes_;
  lock_.unlock_owner();
  return sound
             ? nullptr
             : "invariant large_cache.1: each list has cached spans of its size, bytes is their sum";
}

const char* verify_all() {
  for (ThreadHeap* heap = all_heaps(); heap != nullptr; heap = heap->next_all) {
    if (const char* broken = verify_heap(*heap)) return broken;
  }
  for (unsigned c = 0; c < kClassCount; c++) {
    if (const char* broken = verify_central(c, verify_span)) return broken;
  }
  if (const char* broken = verify_sampled(verify_span)) return broken;
  if (const char* broken = verify_homes()) return broken;
  return pages::verify_pages();
}

void require_sound(const char* broken) {
  if (broken != nullptr) fatal_text(broken);
}

}  // namespace seemalloc::heap

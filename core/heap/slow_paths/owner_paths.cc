#include "core/heap/slow_paths/owner_paths.h"

#include <arch_words.h>

#include "core/base/check.h"
#include "core/heap/maintenance/housekeeping.h"
#include "core/heap/slow_paths/remote.h"
#include "core/heap/spans/central.h"
#include "core/heap/spans/homes.h"
#include "core/heap/spans/owned_spans.h"
#include "core/heap/spans/remote_batch.h"
#include "core/heap/spans/small_span.h"
#include "core/heap/spans/span_holes.h"
#include "core/heap/thread/helper_link.h"
#include "core/heap/thread/large_cache.h"
#include "core/heap/thread/sample_distance.h"
#include "core/os/kernel/clock.h"
#include "core/pages/page_heap/page_heap.h"
#include "core/pages/span/page_map.h"

namespace seemalloc::heap {

using pages::SpanKind;
using pages::SpanState;

namespace {

// refill takes over the blocks that other threads have freed, and notices a change of the option
// `sample`, at the latest after this many lists of one class, and once per sample.
// Without a helper thread slow paths do its work, and a program that has become quiet enters few
// slow paths except this one: hence the smaller number.
constexpr uint16_t kFreedListsPerRefill = 256, kFreedListsWithoutHelper = 32;
// From this many gathered blocks on, refill uses them before the thread's own.
constexpr uint32_t kMinGatheredRefillBlocks = 8;
// Gathered blocks that this thread has not reused after this many refills are published.
constexpr uint32_t kRefillsPerFlush = 128;
// Collection is considered after this many slow-path entries, and done if the last one is at least
// this long ago: memory that was not needed in a quarter of a second will hardly be needed in the
// next refill.
constexpr uint32_t kSlowEntriesPerCollectCheck = 512;
constexpr uint64_t kCollectionPeriodNs = 250 * kMillisecondNs;

// A list of freed blocks is lengthened to kListBlocks. A class of which kMinListBlocks would be
// more than kMaxListBytes is left alone: refills of lists of 8 cost more than those of lists of 4
// (docs/decisions/0056).
constexpr uint32_t kListBlocks = 64, kMinListBlocks = 32, kMaxListBytes = 8 * KiB;
// log2 of a span's size over the smallest of its class: 16 times.
constexpr unsigned kMaxSpanGrowthLog2 = 4;

// log2 of the next span's size over the smallest. It depends on the number of spans that the class
// has now, not on the number that it ever had: the memory that a class keeps free is a part of what
// it has (docs/decisions/0052). Spans grow sooner if they have few blocks, and if few threads have
// spans.
unsigned span_growth_log2(const ClassState& cs, unsigned size_class) {
  constexpr unsigned kFewHeaps = 4;
  uint32_t spans = cs.available.size() + cs.full.size();
  bool slowly = kClasses[size_class].bytes < KiB && active_heaps() > kFewHeaps;
  uint32_t growth = slowly ? (spans + 1) / 2 : spans;
  return growth < kMaxSpanGrowthLog2 ? growth : kMaxSpanGrowthLog2;
}

// Returns the next span to allocate from; null when out of memory.
Span* next_span(ThreadHeap& heap, ClassState& cs, unsigned size_class) {
  Span* span = cs.available.front();
  if (span != nullptr) {
    make_current(cs, span);
  } else {
    span = central_take(size_class, &heap);
    if (span == nullptr) {
      span = new_small_span(heap.shard, size_class, span_growth_log2(cs, size_class),
                            SpanKind::kSmall);
      if (span == nullptr) return nullptr;
      span->set_owner(&heap);
      pages::publish(span);
    }
    DCHECK(span->owner() == &heap && span->size_class == size_class && !span->blocks_are_shared());
    span->state = SpanState::kCurrent;
    span->hole_scan.min_free_blocks = 0;
  }
  return span;
}

// Checks a list that is about to become the thread free list.
Block* check_list_head(const Span* span, Block* first) {
  if (first_links_are_sound(span, first)) return first;
  bool start = span->contains(first) && span->is_block_start(first);
  fatal(start ? "corrupted free list" : "invalid free", first);
}

// Makes a list of remote blocks: those that this thread has freed, else (with `others`) a batch
// that was given to the central list because its owner sleeps.
uint32_t list_remote_blocks(ThreadHeap& heap, unsigned size_class, bool others, Block** first) {
  Block* blocks[kMaxGatheredBlocks];
  uint32_t count = take_gathered(heap, size_class, blocks);
  if (count == 0 && others) count = central_take_batch(size_class, blocks);
  DCHECK(count <= kMaxGatheredBlocks);
  if (count != 0) *first = link_blocks(blocks, count).first;
  return count;
}

// Takes shared blocks: the first blocks of a class that a thread uses. They are few, so that
// classes it hardly uses cost it little.
uint32_t take_shared_blocks(ClassState& cs, unsigned size_class, Block** first) {
  constexpr uint8_t kLists = 4;
  constexpr uint32_t kBytes = 512, kMaxBlocks = 8;
  if (cs.shared_lists_taken >= kLists || cs.current != nullptr || cs.available.front() != nullptr)
    return 0;
  cs.shared_lists_taken++;
  uint32_t blocks = kBytes / kClasses[size_class].bytes;
  return central_take_shared_blocks(size_class,
                                    blocks == 0           ? 1
                                    : blocks > kMaxBlocks ? kMaxBlocks
                                                          : blocks,
                                    first);
}

// Lengthens a list of freed blocks. A class gets here only once in many lists
// (kFreedListsPerRefill); if its lists are short, refills are much of its cost. So this puts fresh
// blocks in front: as many as the list has, up to kListBlocks in all (docs/decisions/0056). Returns
// the number of fresh blocks.
uint32_t extend_list(Span* span, uint32_t count, Block** first) {
  DCHECK(count != 0 && *first != nullptr);
  if (span->block_bytes > kMaxListBytes / kMinListBlocks || span->holes != 0) return 0;
  uint32_t enough = kMaxListBytes / span->block_bytes;
  if (enough > kListBlocks) enough = kListBlocks;
  uint32_t room = span->capacity - span->carved;
  if (count >= enough || room == 0) return 0;
  uint32_t more = count < enough - count ? count : enough - count;
  if (more > room) more = room;
  *first = carve_and_link(span, more, *first);
  return more;
}

// Returns the number of blocks of the next list, all counted as live; 0 when out of memory.
uint32_t find_next_list(ThreadHeap& heap, ClassState& cs, unsigned size_class, Block** first) {
  if (cs.stash != nullptr) {
    uint32_t count = cs.stash_count;
    DCHECK(count != 0);
    *first = cs.stash;
    cs.stash = nullptr;
    cs.stash_count = 0;
    return count;
  }
  cs.lists_not_from_current = true;
  if (cs.gathered_count >= kMinGatheredRefillBlocks)
    return list_remote_blocks(heap, size_class, false, first);
  if (uint32_t count = take_shared_blocks(cs, size_class, first)) return count;
  cs.lists_not_from_current = false;
  for (;;) {
    Span* span = cs.current;
    if (span != nullptr) {
      uint32_t count = span->free_blocks();
      DCHECK(span->state == SpanState::kCurrent && span->owner() == &heap &&
             span->size_class == size_class);
      DCHECK(span->carved <= span->capacity && count <= span->carved);
      if (count != 0) {
        *first = check_list_head(span, span->local_free);
        span->local_free = nullptr;
        count += extend_list(span, count, first);
        span->set_live_without_countdown(span->carved);
        return count;
      }
      if (span->holes != 0) {
        count = refill_hole(span, first);
        span->set_live_without_countdown(span->live());
        return count;
      }
      if (span->carved < span->capacity) {
        count = carve_blocks(span, first);
        span->set_live_without_countdown(span->live() + count);
        return count;
      }
      add_to_full(cs, span);
      cs.current = nullptr;
    }
    if (cs.available.front() == nullptr) {
      uint32_t count = list_remote_blocks(heap, size_class, true, first);
      cs.lists_not_from_current = count != 0;
      if (count != 0) return count;
    }
    cs.current = next_span(heap, cs, size_class);
    if (cs.current == nullptr) return 0;
  }
}

// Returns how many of `count` blocks come before the next sample point. If one of them reaches the
// point, draws the next point.
uint32_t blocks_before_sample(ThreadHeap& heap, ClassState& cs, uint32_t block_bytes,
                              uint32_t count) {
  DCHECK(count != 0);
  uint64_t allocated_bytes = heap.allocated_bytes + uint64_t{block_bytes} * count;
  if (allocated_bytes < heap.sample_at) {
    heap.allocated_bytes = allocated_bytes;
    return count;
  }
  // Less than the bytes of a list, so it fits 32 bits, for which division is fast.
  DCHECK(heap.sample_at > heap.allocated_bytes && cs.sample_due == 0);
  uint32_t before = static_cast<uint32_t>(heap.sample_at - heap.allocated_bytes - 1) / block_bytes;
  DCHECK(before < count);
  // Includes the sample's own block.
  heap.allocated_bytes += uint64_t{block_bytes} * (before + 1);
  cs.sample_due = static_cast<uint8_t>(1 + heap.sample_backoff_log2);
  draw_sample_distance(heap, DrawReason::kSampled);
  return before;
}

// Allocates bytes that must not be sampled: moves the next sample point by the same number of
// bytes, so that its distance stays as drawn.
void skip_sampling(ThreadHeap& heap, uint64_t bytes) {
  heap.allocated_bytes += bytes;
  if (heap.sample_at <= UINT64_MAX - bytes) heap.sample_at += bytes;
}

// Splits the list: returns `keep` blocks to hand out; the others go to the stash, where they still
// count as live. The shorter part is taken off the front, because each step may cost a cache miss.
// Requires: keep < count.
Block* split_list(ClassState& cs, Block* first, uint32_t keep, uint32_t count) {
  DCHECK(keep < count && (cs.stash == nullptr || cs.stash == first));
  uint32_t front = keep < count - keep ? keep : count - keep;
  Block* behind = first;
  if (front != 0) {
    Block* last = first;
    for (uint32_t i = 1; i < front; i++) last = last->next;
    behind = last->next;
    last->next = nullptr;
  }
  cs.stash = front == keep ? behind : first;
  cs.stash_count = count - keep;
  return front == keep ? first : behind;
}

// Requires: the stash holds the blocks that follow the sample in its list.
void take_due_sample(ThreadHeap& heap, ClassState& cs) {
  DCHECK(heap.slow_lock.is_held() && cs.sample_due != 0);
  heap.drawn_interval = heap.sample_base << (cs.sample_due - 1);
  cs.sample_due = 0;
  leave_home(heap.sample_home);
  // With interval 1 every block is recorded and nothing is estimated: each block stands for itself,
  // so it needs no home.
  bool stands_for_others = heap.drawn_interval > 1 && cs.stash != nullptr;
  heap.sample_home = stands_for_others ? enter_home(pages::page_map.span_of(cs.stash)) : 0;
}

// A sample was due where the thread free list ended: the stash behind it becomes the next list.
void refill_from_stash(ThreadHeap& heap, ClassState& cs, unsigned size_class) {
  DCHECK((cs.stash == nullptr) == (cs.stash_count == 0));
  if (cs.stash == nullptr) return;
  Block* first = cs.stash;
  uint32_t count = cs.stash_count;
  uint32_t usable = blocks_before_sample(heap, cs, kClasses[size_class].bytes, count);
  if (usable == 0) return;
  if (usable < count) {
    first = split_list(cs, first, usable, count);
  } else {
    cs.stash = nullptr;
    cs.stash_count = 0;
  }
  thread_cache.heads[size_class] = first;
}

}  // namespace

namespace {
void collect_if_due(ThreadHeap& heap) {
  heap.slow_entries = 0;
  uint64_t now = os::coarse_monotonic_ns();
  bool over_budget = cached_bytes_total() > thread_cache_budget();
  if (now - heap.collected_ns < kCollectionPeriodNs && !over_budget) return;
  heap.collected_ns = now;
  collect(heap, false);
}

}  // namespace

namespace {
Refill refill_locked(ThreadHeap& heap, unsigned size_class, Block** block, bool may_sample) {
  DCHECK(heap.slow_lock.is_held());
  if (heap.pending.load(std::memory_order_relaxed) != nullptr) drain_pending_locked(heap);
  ClassState& cs = heap.body->classes[size_class];
  count_refill(heap, size_class,
               hole_helper_thread.load(std::memory_order_relaxed) != nullptr
                   ? kFreedListsPerRefill
                   : kFreedListsWithoutHelper);
  redraw_if_stale(heap);
  heap.body->local_refill_spans[size_class] = nullptr;
  if (cs.sample_due != 0) {
    take_due_sample(heap, cs);
    if (may_sample) {
      refill_from_stash(heap, cs, size_class);
      return Refill::kSample;
    }
    leave_home(heap.sample_home);
    heap.sample_home = 0;
    count_unused_bytes(kClasses[size_class].bytes);
  }
  Block* first = nullptr;
  uint32_t count = find_next_list(heap, cs, size_class, &first);
  if (count == 0) return Refill::kNoMemory;
  uint32_t block_bytes = kClasses[size_class].bytes, usable = count;
  if (may_sample) {
    usable = blocks_before_sample(heap, cs, block_bytes, count);
  } else {
    skip_sampling(heap, uint64_t{block_bytes} * count);
  }
  if (usable < count) first = split_list(cs, first, usable, count);
  if (usable == 0) {
    take_due_sample(heap, cs);
    return Refill::kSample;
  }
  DCHECK(cs.current == nullptr || cs.current->state == SpanState::kCurrent);
  DCHECK(cs.sample_due == 0 || cs.stash != nullptr);
  if (cs.stash == nullptr && cs.current != nullptr)
    heap.body->local_refill_spans[size_class] = cs.current;
  *block = first;
  thread_cache.heads[size_class] = first->next;
  return Refill::kBlock;
}

// The current span is used up and has no freed blocks, but another span is available. Most refills
// of a class are of this kind once it has some spans. Does the same as refill_locked would, with a
// third of its instructions. Returns null if refill_locked has to decide.
Block* take_available_locked(ThreadHeap& heap, size_t size_class) {
  ClassState& cs = heap.body->classes[size_class];
  // Not null, so there is no stash and no sample is due.
  Span* used_up = heap.body->local_refill_spans[size_class];
  Span* span = cs.available.front();
  if (used_up == nullptr || span == nullptr || cs.gathered_count >= kMinGatheredRefillBlocks)
    return nullptr;
  if (used_up->local_free != nullptr || used_up->holes != 0 || used_up->carved < used_up->capacity)
    return nullptr;
  Block* first = span->local_free;
  if (first == nullptr || !first_links_are_sound(span, first)) return nullptr;
  uint64_t allocated_bytes =
      heap.allocated_bytes + uint64_t{span->free_blocks()} * span->block_bytes;
  if (allocated_bytes >= heap.sample_at) return nullptr;
  DCHECK(used_up == cs.current && used_up->state == SpanState::kCurrent);
  DCHECK(cs.stash == nullptr && cs.sample_due == 0);
  DCHECK(span->owner() == &heap && span->size_class == size_class);
  heap.allocated_bytes = allocated_bytes;
  heap.body->local_refills_left[size_class]--;
  heap.slow_entries++;
  make_current(cs, span);
  add_to_full(cs, used_up);
  cs.current = span;
  cs.lists_not_from_current = false;
  span->local_free = nullptr;
  span->set_live_without_countdown(span->carved);
  heap.body->local_refill_spans[size_class] = span;
  thread_cache.heads[size_class] = first->next;
  return first;
}
}  // namespace

Block* refill_from_available_span(ThreadHeap& heap, size_t size_class) {
  // When one of the two counts has ended, the caller goes on to refill(), which does the periodic
  // work.
  if (heap.body->local_refills_left[size_class] - 1 >= kFreedListsPerRefill ||
      heap.slow_entries % kRefillsPerFlush == 0)
    return nullptr;
  if (heap.pending.load(std::memory_order_relaxed) != nullptr || !sample_changes_seen(heap))
    return nullptr;
  // Without a current span that is ready, take_available_locked() would return null.
  if (SEEMALLOC_UNLIKELY(racy_load(heap.body->local_refill_spans[size_class]) == nullptr))
    return nullptr;
  if (SEEMALLOC_UNLIKELY(!heap.slow_lock.try_lock())) return nullptr;
  Block* first = take_available_locked(heap, size_class);
  heap.slow_lock.unlock();
  return first;
}

Refill refill(ThreadHeap& heap, unsigned size_class, Block** block, bool may_sample) {
  if (heap.gathered_bytes != 0 && heap.slow_entries % kRefillsPerFlush == 0) flush_gathered(heap);
  if (++heap.slow_entries >= kSlowEntriesPerCollectCheck) collect_if_due(heap);
  DCHECK(&heap == thread_cache.heap && size_class < kClassCount);
  LockGuard guard(heap.slow_lock);
  Refill outcome = refill_locked(heap, size_class, block, may_sample);
  reduce_backoff_if_due(heap);  // after the sample point that a list held has been taken
  return outcome;
}

void span_countdown_slow(ThreadHeap& heap, Span* span) noexcept {
  bool retired;
  {
    LockGuard guard(heap.slow_lock);
    retired = span_countdown_locked(heap, span);
  }
  retired ? tick() : note_slow_free();
}

namespace {

size_t free_bytes(const Span* span) { return size_t{span->free_blocks()} * span->block_bytes; }

// Free bytes on the available lists, estimated from a few spans of each class.
size_t estimate_cached(const ThreadHeap& heap) {
  size_t total = 0;
  for (const ClassState& cs : heap.body->classes) {
    constexpr uint32_t kLook = 4;
    size_t seen_bytes = 0;
    uint32_t seen = 0;
    for (Span* span = cs.available.back(); span != nullptr && seen < kLook;
         span = span->prev, seen++) {
      seen_bytes += free_bytes(span);
    }
    if (seen != 0) total += seen_bytes / seen * cs.available.size();
  }
  return total;
}

// Gives the span that has been available longest to the central list, or releases it if it is
// empty. Returns false if a remote free to it is under way.
bool release_oldest_available(ClassState& cs, size_t* purged_bytes) {
  Span* span = cs.available.front();
  *purged_bytes = free_bytes(span);
  DCHECK(span->state == SpanState::kAvailable);
  cs.available.remove(span);
  if (span->is_empty()) {
    release_empty_span(span);
    return true;
  }
  if (central_put(span)) return true;
  cs.available.push_back(span);
  return false;
}

}  // namespace

namespace {
void collect_locked(ThreadHeap& heap, bool everything) {
  DCHECK(heap.slow_lock.is_held());
  size_t cached = estimate_cached(heap);
  size_t others = cached_bytes_total() - heap.cached_bytes;
  size_t budget = thread_cache_budget();
  for (ClassState& cs : heap.body->classes) {
    uint32_t unused = cs.low_water;
    uint32_t give = everything ? cs.available.size() : (unused + 1) / 2;
    bool over = cached + others > budget;
    while (cs.available.size() != 0 && (give != 0 || over)) {
      size_t purged_bytes = 0;
      if (!release_oldest_available(cs, &purged_bytes)) break;
      cached -= purged_bytes < cached ? purged_bytes : cached;
      over = cached + others > budget;
      if (give != 0) give--;
    }
    cs.low_water = cs.available.size();
  }
  set_cached_bytes(heap, cached);
}
}  // namespace

void collect(ThreadHeap& heap, bool everything) {
  {
    LockGuard guard(heap.slow_lock);
    collect_locked(heap, everything);
  }
  if (everything) heap.body->large.flush();
  tick();
}

}  // namespace seemalloc::heap

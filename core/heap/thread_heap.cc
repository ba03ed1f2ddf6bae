#include "core/heap/thread_heap.h"

#include <string.h>

#include <utility>

#include "core/base/check.h"
#include "core/base/options.h"
#include "core/heap/central.h"
#include "core/heap/holes.h"
#include "core/heap/homes.h"
#include "core/heap/housekeeping.h"
#include "core/heap/pressure.h"
#include "core/heap/remote.h"
#include "core/heap/sample_growth.h"
#include "core/os/clock.h"
#include "core/os/memory.h"
#include "core/pages/page_heap.h"
#include "core/pages/page_map.h"
#include "core/pages/region_count.h"

namespace seemalloc::heap {

using pages::SpanKind;
using pages::SpanState;

constinit thread_local ThreadCache thread_cache __attribute__((tls_model("initial-exec")));
constinit std::atomic<void (*)()> on_slow_free{nullptr};

namespace {

// refill takes over the blocks that other threads have freed, and notices a change of the option `sample`, at the
// latest after this many lists of one class, and once per sample.
// Without a helper thread slow paths do its work, and a program that has become quiet enters few slow paths except this
// one: hence the smaller number.
constexpr uint16_t kFreedListsPerRefill = 256, kFreedListsWithoutHelper = 32;
// From this many foreign blocks on, refill uses them before the thread's own.
constexpr uint32_t kWorthARefill = 8;
// Foreign blocks that this thread has not reused after this many refills are published.
constexpr uint32_t kRefillsPerFlush = 128;
// Collection is considered after this many slow-path entries, and done if the last one is at least this long ago:
// memory that was not needed in a quarter of a second will hardly be needed in the next refill.
constexpr uint32_t kSlowEntriesPerLook = 512;
constexpr uint64_t kCollectionPeriod_ns = 250 * kMillisecond_ns;

// A list of freed blocks is lengthened to kListBlocks. A class of which kLeastListBlocks would be more than
// kMostListBytes is left alone: refills of lists of 8 cost more than those of lists of 4 (docs/decisions/0056).
constexpr uint32_t kListBlocks = 64, kLeastListBlocks = 32, kMostListBytes = 8 * KiB;
constexpr unsigned kMostGrowth = 4;  // log2 of a span's size over the smallest of its class: 16 times

void never_sample(ThreadHeap& heap, Draw) { heap.sample_at = UINT64_MAX; }

// Number of frees after which a full span becomes available: the next refill then gets many blocks instead of one.
uint32_t full_threshold(const Span* span) { return span->capacity < 32 ? 1 : span->capacity / 8; }

void file_available(ClassState& cs, Span* span, uint32_t live) {
  DCHECK(span->kind == SpanKind::kSmall && span->state != SpanState::kDetached);
  // At the back: the longer a span waits, the more blocks its next list has (docs/decisions/0004).
  span->state = SpanState::kAvailable;
  span->look.since = hole_epoch.load(std::memory_order_relaxed);
  span->set_live(live);
  cs.available.push_back(span);
}

void file_full(ClassState& cs, Span* span) {
  DCHECK(span->kind == SpanKind::kSmall && span->remote.load(std::memory_order_relaxed) != kUnowned);
  DCHECK(span->carved == span->capacity && span->holes == 0);
  uint32_t live = span->live();
  uint32_t threshold = full_threshold(span);
  DCHECK(threshold != 0 && live >= threshold);
  span->set_countdown(threshold, live - threshold);
  span->state = SpanState::kFull;
  cs.full.push_front(span);
}

// Makes an available span the current one. The caller sets cs.current.
void use_available(ClassState& cs, Span* span) {
  DCHECK(span->remote.load(std::memory_order_relaxed) != kUnowned);
  remove_available(cs, span);
  span->state = SpanState::kCurrent;
  span->look.worth_from = 0;
}

// log2 of the next span's size over the smallest. It depends on the number of spans that the class has now, not on the
// number that it ever had: the memory that a class keeps free is a part of what it has (docs/decisions/0052). Spans
// grow sooner if they have few blocks, and if few threads have spans.
unsigned growth_of(const ClassState& cs, unsigned size_class) {
  constexpr unsigned kFewHeaps = 4;
  uint32_t spans = cs.available.size() + cs.full.size();
  bool slowly = kClasses[size_class].bytes < KiB && active_heaps() > kFewHeaps;
  uint32_t growth = slowly ? (spans + 1) / 2 : spans;
  return growth < kMostGrowth ? growth : kMostGrowth;
}

// Returns the next span to allocate from; null when out of memory.
Span* next_span(ThreadHeap& heap, ClassState& cs, unsigned size_class) {
  Span* span = cs.available.front();
  if (span != nullptr) {
    use_available(cs, span);
  } else {
    span = central_take(size_class, &heap);
    if (span == nullptr) {
      span = new_small_span(heap.shard, size_class, growth_of(cs, size_class), SpanKind::kSmall);
      if (span == nullptr) return nullptr;
      span->set_owner(&heap);
      pages::publish(span);
    }
    DCHECK(span->owner() == &heap && span->size_class == size_class && !span->lending());
    span->state = SpanState::kCurrent;
    span->look.worth_from = 0;
  }
  return span;
}

// Checks a list that is about to become the thread free list.
Block* checked(const Span* span, Block* first) {
  if (first_links_are_sound(span, first)) return first;
  bool start = span->contains(first) && span->is_block_start(first);
  fatal(start ? "corrupted free list" : "invalid free", first);
}

// Makes a list of foreign blocks: those that this thread has freed, else (with `others`) a batch that was given to the
// central list because its owner sleeps.
uint32_t foreign_list(ThreadHeap& heap, unsigned size_class, bool others, Block** first) {
  Block* blocks[kMaxForeignBlocks];
  uint32_t count = take_foreign(heap, size_class, blocks);
  if (count == 0 && others) count = central_take_blocks(size_class, blocks);
  DCHECK(count <= kMaxForeignBlocks);
  if (count != 0) *first = link_blocks(blocks, count).first;
  return count;
}

// Takes shared blocks: the first blocks of a class that a thread uses. They are few, so that classes it hardly uses
// cost it little.
uint32_t borrow(ClassState& cs, unsigned size_class, Block** first) {
  constexpr uint8_t kLists = 4;
  constexpr uint32_t kBytes = 512, kMaxBlocks = 8;
  if (cs.borrowed >= kLists || cs.current != nullptr || cs.available.front() != nullptr) return 0;
  cs.borrowed++;
  uint32_t blocks = kBytes / kClasses[size_class].bytes;
  return central_lend(size_class, blocks == 0 ? 1 : blocks > kMaxBlocks ? kMaxBlocks : blocks, first);
}

// Carves `count` blocks from the span's untouched end and links the last one to `behind`.
Block* cut(Span* span, uint32_t count, Block* behind) {
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

// Lengthens a list of freed blocks. A class gets here only once in many lists (kFreedListsPerRefill); if its lists are
// short, refills are much of its cost. So this puts fresh blocks in front: as many as the list has, up to kListBlocks
// in all (docs/decisions/0056). Returns the number of fresh blocks.
uint32_t lengthen(Span* span, uint32_t count, Block** first) {
  DCHECK(count != 0 && *first != nullptr);
  if (span->block_bytes > kMostListBytes / kLeastListBlocks || span->holes != 0) return 0;
  uint32_t enough = kMostListBytes / span->block_bytes;
  if (enough > kListBlocks) enough = kListBlocks;
  uint32_t room = span->capacity - span->carved;
  if (count >= enough || room == 0) return 0;
  uint32_t more = count < enough - count ? count : enough - count;
  if (more > room) more = room;
  *first = cut(span, more, *first);
  return more;
}

// Returns the number of blocks of the next list, all counted as live; 0 when out of memory.
uint32_t next_list(ThreadHeap& heap, ClassState& cs, unsigned size_class, Block** first) {
  if (cs.stash != nullptr) {
    uint32_t count = cs.stash_count;
    DCHECK(count != 0);
    *first = cs.stash;
    cs.stash = nullptr;
    cs.stash_count = 0;
    return count;
  }
  cs.mixed = true;
  if (cs.foreign_count >= kWorthARefill) return foreign_list(heap, size_class, false, first);
  if (uint32_t count = borrow(cs, size_class, first)) return count;
  cs.mixed = false;
  for (;;) {
    Span* span = cs.current;
    if (span != nullptr) {
      uint32_t count = span->free_blocks();
      DCHECK(span->state == SpanState::kCurrent && span->owner() == &heap && span->size_class == size_class);
      DCHECK(span->carved <= span->capacity && count <= span->carved);
      if (count != 0) {
        *first = checked(span, span->free_list);
        span->free_list = nullptr;
        count += lengthen(span, count, first);
        span->set_live_quietly(span->carved);
        return count;
      }
      if (span->holes != 0) {
        count = refill_hole(span, first);
        span->set_live_quietly(span->live());
        return count;
      }
      if (span->carved < span->capacity) {
        count = carve(span, first);
        span->set_live_quietly(span->live() + count);
        return count;
      }
      file_full(cs, span);
      cs.current = nullptr;
    }
    if (cs.available.front() == nullptr) {
      uint32_t count = foreign_list(heap, size_class, true, first);
      cs.mixed = count != 0;
      if (count != 0) return count;
    }
    cs.current = next_span(heap, cs, size_class);
    if (cs.current == nullptr) return 0;
  }
}

// Returns how many of `count` blocks come before the next sample point. If one of them reaches the point, draws the
// next point.
uint32_t blocks_before_sample(ThreadHeap& heap, ClassState& cs, uint32_t block_bytes, uint32_t count) {
  DCHECK(count != 0);
  uint64_t clock = heap.handed_out_bytes + uint64_t{block_bytes} * count;
  if (clock < heap.sample_at) {
    heap.handed_out_bytes = clock;
    return count;
  }
  // Less than the bytes of a list, so it fits 32 bits, for which division is fast.
  DCHECK(heap.sample_at > heap.handed_out_bytes && cs.sample_due == 0);
  uint32_t before = static_cast<uint32_t>(heap.sample_at - heap.handed_out_bytes - 1) / block_bytes;
  DCHECK(before < count);
  heap.handed_out_bytes += uint64_t{block_bytes} * (before + 1);  // includes the sample's own block
  cs.sample_due = static_cast<uint8_t>(1 + heap.sample_stretch);
  draw_sample_distance(heap, Draw::kSampled);
  return before;
}

// Allocates bytes that must not be sampled: moves the next sample point by the same number of bytes, so that its
// distance stays as drawn.
void pass_unsampled(ThreadHeap& heap, uint64_t bytes) {
  heap.handed_out_bytes += bytes;
  if (heap.sample_at <= UINT64_MAX - bytes) heap.sample_at += bytes;
}

// Splits the list: returns `keep` blocks to hand out; the others go to the stash, where they still count as live. The
// shorter part is taken off the front, because each step may cost a cache miss. Requires: keep < count.
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
  heap.due_interval = heap.sample_base << (cs.sample_due - 1);
  cs.sample_due = 0;
  leave_home(heap.due_home);
  // With interval 1 every block is recorded and nothing is estimated: each block stands for itself, so it needs no
  // home.
  bool stands_for_others = heap.due_interval > 1 && cs.stash != nullptr;
  heap.due_home = stands_for_others ? enter_home(pages::page_map.span_of(cs.stash)) : 0;
}

// A sample was due where the thread free list ended: the stash behind it becomes the next list.
void hand_out_stash(ThreadHeap& heap, ClassState& cs, unsigned size_class) {
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

void (*draw_sample_distance)(ThreadHeap& heap, Draw reason) = never_sample;

namespace {
constexpr uint64_t kOptionChange = uint64_t{1} << 32;
}
std::atomic<uint64_t> sample_changes{kOptionChange};
std::atomic<bool> sample_distances_stretched{false};

void redraw_sample(ThreadHeap& heap) {
  uint64_t changes = sample_changes.load(std::memory_order_relaxed);
  if (changes / kOptionChange == heap.sample_changes / kOptionChange) return;
  heap.sample_changes = changes;
  for (unsigned c = 0; c < kClassCount; c++) {
    ClassState& cs = heap.body->classes[c];
    if (cs.sample_due != 0) count_returned_unused(kClasses[c].bytes);
    cs.sample_due = 0;
  }
  draw_sample_distance(heap, Draw::kNewInterval);
}

void relax_sample(ThreadHeap& heap) {
  uint64_t changes = sample_changes.load(std::memory_order_relaxed);
  if (changes / kOptionChange != heap.sample_changes / kOptionChange) return;  // redraw_sample does it
  heap.sample_changes = changes;
  draw_sample_distance(heap, Draw::kTimePassed);
}

void invalidate_sample_distances() { sample_changes.fetch_add(kOptionChange, std::memory_order_relaxed); }

void redraw_stretched_samples() {
  if (sample_distances_stretched.exchange(false, std::memory_order_relaxed)) sample_changes.fetch_add(1, std::memory_order_relaxed);
}

bool large_sample_due(ThreadHeap& heap, size_t bytes) {
  redraw_if_stale(heap);
  relax_if_due(heap);
  heap.handed_out_bytes += bytes;
  if (SEEMALLOC_LIKELY(heap.handed_out_bytes < heap.sample_at)) return false;
  heap.due_interval = heap.sample_base << heap.sample_stretch;
  draw_sample_distance(heap, Draw::kSampled);
  return true;
}

namespace {
// Lists are linked through the blocks, so every OS page of a carved span is written if each page has the start of a
// block. In all heaps together, the parts of spans that are not carved yet are only a small part of the regions.
bool written_everywhere(const SizeClass& c) {
  constexpr size_t kLeastRegions = 32, kRegionsPerHeap = 10;
  return c.bytes <= os::page_bytes() && pages::region_count() >= kLeastRegions + kRegionsPerHeap * active_heaps();
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
  os::ForSizeClass label(size_class);
  Span* span = pages::allocate_run(shard, page_count, 1, kind, dense);
  if (span == nullptr && page_count > c.min_pages) span = pages::allocate_run(shard, c.min_pages, 1, kind);
  if (span == nullptr) return nullptr;
  span->size_class = static_cast<uint8_t>(size_class);
  span->set_block_bytes(c.bytes);
  DCHECK(span->capacity != 0 && span->carved == 0 && span->is_empty());
  if (kind == SpanKind::kSmall) span_comes(span);
  look_for_growth();
  return span;
}

uint32_t carve(Span* span, Block** first) {
  DCHECK(span->carved < span->capacity);
  // Doubles each time, so memory that is not needed stays untouched.
  uint32_t count = kClasses[span->size_class].max_blocks_per_extension;
  if (count < span->carved) count = span->carved;
  if (count > span->capacity - span->carved) count = span->capacity - span->carved;
  *first = cut(span, count, nullptr);
  return count;
}

namespace {
void collect_if_due(ThreadHeap& heap) {
  heap.slow_entries = 0;
  uint64_t now = os::coarse_monotonic_ns();
  bool over_budget = cached_bytes_total() > thread_cache_budget();
  if (now - heap.collected_ns < kCollectionPeriod_ns && !over_budget) return;
  heap.collected_ns = now;
  collect(heap, false);
}

}  // namespace

namespace {

std::atomic<uint64_t> settled[kClassCount];

// Lists that take_freed and take_available have handed out since the last refill. A counter that has wrapped below zero
// has ended and counts as 0.
SEEMALLOC_NO_TSAN uint32_t lists_since_refill(const ThreadHeap& heap, unsigned size_class) {
  uint32_t at_first = heap.body->freed_lists_at_first[size_class], left = heap.body->freed_lists[size_class];
  return left <= at_first ? at_first - left : at_first;
}

void set_freed_lists(ThreadHeap& heap, unsigned size_class, uint16_t lists) {
  heap.body->freed_lists_at_first[size_class] = lists;
  heap.body->freed_lists[size_class] = lists;
}

void settle_refills(ThreadHeap& heap, unsigned size_class) {
  uint64_t refills = refills_of(heap, size_class);
  if (refills == 0) return;
  settled[size_class].fetch_add(refills, std::memory_order_relaxed);
  heap.body->classes[size_class].refills = 0;
  set_freed_lists(heap, size_class, 0);
}

void count_refill(ThreadHeap& heap, unsigned size_class) {
  constexpr uint32_t kMost = uint32_t{1} << 31;
  ClassState& cs = heap.body->classes[size_class];
  cs.refills += 1 + lists_since_refill(heap, size_class);
  if (SEEMALLOC_UNLIKELY(cs.refills >= kMost)) settled[size_class].fetch_add(std::exchange(cs.refills, 0), std::memory_order_relaxed);
  set_freed_lists(heap, size_class, hole_helper.load(std::memory_order_relaxed) != nullptr ? kFreedListsPerRefill : kFreedListsWithoutHelper);
}

}  // namespace

uint64_t settled_refills(unsigned size_class) { return settled[size_class].load(std::memory_order_relaxed); }
void forget_refills_in_child() {
  for (ThreadHeap* heap = all_heaps(); heap != nullptr; heap = heap->next_all) {
    if (heap->state.load(std::memory_order_relaxed) == HeapState::kZombie) continue;
    for (unsigned c = 0; c < kClassCount; c++) {
      // freed_lists, the number of lists that take_freed may still hand out, is not changed: fork may have interrupted
      // take_freed.
      heap->body->classes[c].refills = 0;
      heap->body->freed_lists_at_first[c] -= static_cast<uint16_t>(lists_since_refill(*heap, c));
    }
  }
  for (std::atomic<uint64_t>& refills : settled) refills.store(0, std::memory_order_relaxed);
}
uint64_t refills_of(const ThreadHeap& heap, unsigned size_class) {
  return uint64_t{heap.body->classes[size_class].refills} + lists_since_refill(heap, size_class);
}

namespace {
Refill refill_locked(ThreadHeap& heap, unsigned size_class, Block** block, bool may_sample) {
  DCHECK(heap.slow_lock.is_held());
  if (heap.pending.load(std::memory_order_relaxed) != nullptr) drain_pending_locked(heap);
  ClassState& cs = heap.body->classes[size_class];
  count_refill(heap, size_class);
  redraw_if_stale(heap);
  heap.body->ready[size_class] = nullptr;
  if (cs.sample_due != 0) {
    take_due_sample(heap, cs);
    if (may_sample) {
      hand_out_stash(heap, cs, size_class);
      return Refill::kSample;
    }
    leave_home(heap.due_home);
    heap.due_home = 0;
    count_returned_unused(kClasses[size_class].bytes);
  }
  Block* first = nullptr;
  uint32_t count = next_list(heap, cs, size_class, &first);
  if (count == 0) return Refill::kNoMemory;
  uint32_t block_bytes = kClasses[size_class].bytes, usable = count;
  if (may_sample) {
    usable = blocks_before_sample(heap, cs, block_bytes, count);
  } else {
    pass_unsampled(heap, uint64_t{block_bytes} * count);
  }
  if (usable < count) first = split_list(cs, first, usable, count);
  if (usable == 0) {
    take_due_sample(heap, cs);
    return Refill::kSample;
  }
  DCHECK(cs.current == nullptr || cs.current->state == SpanState::kCurrent);
  DCHECK(cs.sample_due == 0 || cs.stash != nullptr);
  if (cs.stash == nullptr && cs.current != nullptr) heap.body->ready[size_class] = cs.current;
  *block = first;
  thread_cache.heads[size_class] = first->next;
  return Refill::kBlock;
}

// The current span is used up and has no freed blocks, but another span is available. Most refills of a class are of
// this kind once it has some spans. Does the same as refill_locked would, with a third of its instructions. Returns
// null if refill_locked has to decide.
Block* take_available_locked(ThreadHeap& heap, size_t size_class) {
  ClassState& cs = heap.body->classes[size_class];
  Span* used_up = heap.body->ready[size_class];  // not null, so there is no stash and no sample is due
  Span* span = cs.available.front();
  if (used_up == nullptr || span == nullptr || cs.foreign_count >= kWorthARefill) return nullptr;
  if (used_up->free_list != nullptr || used_up->holes != 0 || used_up->carved < used_up->capacity) return nullptr;
  Block* first = span->free_list;
  if (first == nullptr || !first_links_are_sound(span, first)) return nullptr;
  uint64_t clock = heap.handed_out_bytes + uint64_t{span->free_blocks()} * span->block_bytes;
  if (clock >= heap.sample_at) return nullptr;
  DCHECK(used_up == cs.current && used_up->state == SpanState::kCurrent);
  DCHECK(cs.stash == nullptr && cs.sample_due == 0);
  DCHECK(span->owner() == &heap && span->size_class == size_class);
  heap.handed_out_bytes = clock;
  heap.body->freed_lists[size_class]--;
  heap.slow_entries++;
  use_available(cs, span);
  file_full(cs, used_up);
  cs.current = span;
  cs.mixed = false;
  span->free_list = nullptr;
  span->set_live_quietly(span->carved);
  heap.body->ready[size_class] = span;
  thread_cache.heads[size_class] = first->next;
  return first;
}
}  // namespace

Block* take_available(ThreadHeap& heap, size_t size_class) {
  // When one of the two counts has ended, the caller goes on to refill(), which does the periodic work.
  if (heap.body->freed_lists[size_class] - 1 >= kFreedListsPerRefill || heap.slow_entries % kRefillsPerFlush == 0) return nullptr;
  if (heap.pending.load(std::memory_order_relaxed) != nullptr || !sample_changes_seen(heap)) return nullptr;
  // Without a current span that is ready, take_available_locked() would return null.
  if (SEEMALLOC_UNLIKELY(load_racing(heap.body->ready[size_class]) == nullptr)) return nullptr;
  if (SEEMALLOC_UNLIKELY(!heap.slow_lock.try_lock())) return nullptr;
  Block* first = take_available_locked(heap, size_class);
  heap.slow_lock.unlock();
  return first;
}

Refill refill(ThreadHeap& heap, unsigned size_class, Block** block, bool may_sample) {
  if (heap.foreign_bytes != 0 && heap.slow_entries % kRefillsPerFlush == 0) flush_foreign(heap);
  if (++heap.slow_entries >= kSlowEntriesPerLook) collect_if_due(heap);
  DCHECK(&heap == thread_cache.heap && size_class < kClassCount);
  LockGuard guard(heap.slow_lock);
  Refill outcome = refill_locked(heap, size_class, block, may_sample);
  relax_if_due(heap);  // after the sample point that a list held has been taken
  return outcome;
}

void retire(Span* span) {
  DCHECK(span->is_empty());
  DCHECK(span->kind == SpanKind::kSmall && span->state != SpanState::kCurrent);
  DCHECK(span->prev == nullptr && span->next == nullptr);
  DCHECK(span->remote.load(std::memory_order_relaxed) == 0);
  span_goes(span);
  span->disown();
  pages::release(span);
}

namespace {

// A span on the available list has no live block left. One per class is kept, because the next refill would need it
// again.
bool retire_or_keep(ClassState& cs, Span* span) {
  DCHECK(span->state == SpanState::kAvailable && span->is_empty());
  if (cs.available.size() <= 1) return false;
  remove_available(cs, span);
  retire(span);
  return true;
}

void full_to_available(ClassState& cs, Span* span, uint32_t live) {
  DCHECK(span->state == SpanState::kFull);
  cs.full.remove(span);
  file_available(cs, span, live);
}

}  // namespace

namespace {
// Returns true if pages were released.
bool span_countdown_locked(ThreadHeap& heap, Span* span) {
  DCHECK(heap.slow_lock.is_held());
  // Between the free and the lock, a remote free may have found the span empty and released it (remote.h, rule 6).
  if (span->owner() != &heap) return false;
  ClassState& cs = heap.body->classes[span->size_class];
  // The purger that has detached the span checks it when it reattaches it.
  if (span->state == SpanState::kCurrent || span->state == SpanState::kDetached) return false;
  if (span->state == SpanState::kFull) full_to_available(cs, span, span->live());
  return span->is_empty() && retire_or_keep(cs, span);
}
}  // namespace

void span_countdown_slow(ThreadHeap& heap, Span* span) noexcept {
  bool retired;
  {
    LockGuard guard(heap.slow_lock);
    retired = span_countdown_locked(heap, span);
  }
  retired ? tick() : note_slow_free();
}

void file_owned_locked(ThreadHeap& heap, Span* span) {
  DCHECK(heap.slow_lock.is_held());
  DCHECK(span->owner() == &heap && span->prev == nullptr && span->next == nullptr);
  ClassState& cs = heap.body->classes[span->size_class];
  if (span->free_blocks() == 0 && span->carved == span->capacity && span->holes == 0) {
    file_full(cs, span);
  } else {
    file_available(cs, span, span->live());
  }
}

void return_blocks_locked(ThreadHeap& heap, Span* span, BlockList list, uint32_t count) {
  DCHECK(heap.slow_lock.is_held());
  DCHECK(count != 0 && span->contains(list.first) && span->contains(list.last));
  DCHECK(span->owner() == &heap && span->kind == SpanKind::kSmall);
  if (count > span->live() - span->hole_blocks()) fatal("double free", list.first);  // double free by different threads
  list.last->next = span->free_list;
  span->free_list = list.first;
  ClassState& cs = heap.body->classes[span->size_class];
  uint32_t live = span->live() - count;
  if (span->state == SpanState::kCurrent) {
    span->set_live_quietly(live);
  } else if (span->state == SpanState::kAvailable) {
    span->set_live(live);
  } else if (span->state == SpanState::kFull && span->capacity - live >= full_threshold(span)) {
    full_to_available(cs, span, live);
  } else {
    span->set_countdown(span->countdown - count, span->bias);
  }
  if (span->is_empty() && span->state == SpanState::kAvailable) retire_or_keep(cs, span);
}

void drain_pending_locked(ThreadHeap& heap) {
  DCHECK(heap.slow_lock.is_held());
  Span* span = heap.pending.exchange(nullptr, std::memory_order_seq_cst);
  heap.pending_count.store(0, std::memory_order_relaxed);
  heap.complete_count.store(0, std::memory_order_relaxed);
  while (span != nullptr) {
    // Loads all remote words first: each locked instruction would wait for earlier writes to the blocks.
    constexpr uint32_t kAtOnce = 16;
    struct {
      Span* span;
      uint64_t word;
    } taken[kAtOnce];
    uint32_t count = 0;
    while (span != nullptr && count < kAtOnce) {
      Span* next = span->pending_next;  // before the exchange: after it the span may be pushed again
      uint64_t word = span->remote.exchange(0, std::memory_order_acq_rel);
      DCHECK(word != kUnowned && remote_count(word) != 0 && remote_first(word) != nullptr);
      DCHECK(span->owner() == &heap);
      prefetch_for_write(remote_first(word));
      taken[count++] = {span, word};
      span = next;
    }
    for (uint32_t i = 0; i < count; i++) {
      uint32_t blocks = remote_count(taken[i].word);
      return_blocks_locked(heap, taken[i].span, open_parcels(taken[i].span, remote_first(taken[i].word), blocks), blocks);
    }
  }
}

// ---- collection ----

namespace {

std::atomic<size_t> cached_total{0};
std::atomic<uint64_t> returned_unused{0};

size_t free_bytes(const Span* span) { return size_t{span->free_blocks()} * span->block_bytes; }

// Free bytes on the available lists, estimated from a few spans of each class.
size_t estimate_cached(const ThreadHeap& heap) {
  size_t total = 0;
  for (const ClassState& cs : heap.body->classes) {
    constexpr uint32_t kLook = 4;
    size_t seen_bytes = 0;
    uint32_t seen = 0;
    for (Span* span = cs.available.back(); span != nullptr && seen < kLook; span = span->prev, seen++) {
      seen_bytes += free_bytes(span);
    }
    if (seen != 0) total += seen_bytes / seen * cs.available.size();
  }
  return total;
}

// Gives the span that has been available longest to the central list, or releases it if it is empty. Returns false if a
// remote free to it is under way.
bool give_away_oldest(ClassState& cs, size_t* given_bytes) {
  Span* span = cs.available.front();
  *given_bytes = free_bytes(span);
  DCHECK(span->state == SpanState::kAvailable);
  cs.available.remove(span);
  if (span->is_empty()) {
    retire(span);
    return true;
  }
  if (central_put(span)) return true;
  cs.available.push_back(span);
  return false;
}

}  // namespace

size_t cached_bytes_total() { return cached_total.load(std::memory_order_relaxed); }

namespace {
void collect_locked(ThreadHeap& heap, bool everything) {
  DCHECK(heap.slow_lock.is_held());
  size_t cached = estimate_cached(heap);
  size_t others = cached_total.load(std::memory_order_relaxed) - heap.cached_bytes;
  size_t budget = thread_cache_budget();
  for (ClassState& cs : heap.body->classes) {
    uint32_t unused = cs.low_water;
    uint32_t give = everything ? cs.available.size() : (unused + 1) / 2;
    bool over = cached + others > budget;
    while (cs.available.size() != 0 && (give != 0 || over)) {
      size_t given_bytes = 0;
      if (!give_away_oldest(cs, &given_bytes)) break;
      cached -= given_bytes < cached ? given_bytes : cached;
      over = cached + others > budget;
      if (give != 0) give--;
    }
    cs.low_water = cs.available.size();
  }
  cached_total.fetch_add(cached - heap.cached_bytes, std::memory_order_relaxed);
  heap.cached_bytes = cached;
}
}  // namespace

uint64_t returned_unused_bytes() { return returned_unused.load(std::memory_order_relaxed); }
void count_returned_unused(uint64_t bytes) { returned_unused.fetch_add(bytes, std::memory_order_relaxed); }

void collect(ThreadHeap& heap, bool everything) {
  {
    LockGuard guard(heap.slow_lock);
    collect_locked(heap, everything);
  }
  if (everything) heap.body->large.flush();
  tick();
}

// ---- end of a thread ----

namespace {

// Returns the number of blocks that the list had.
uint32_t return_list_locked(ThreadHeap& heap, Span* span, Block** head) {
  uint32_t count = 0;
  Block* last = nullptr;
  for (Block* block = *head; block != nullptr; block = block->next, count++) last = block;
  DCHECK(count == 0 || span != nullptr);
  if (count != 0) return_blocks_locked(heap, span, {*head, last}, count);
  *head = nullptr;
  return count;
}

// Returns the blocks of the thread free list and the stash to their span.
void return_lists_locked(ThreadHeap& heap, unsigned size_class) {
  ClassState& cs = heap.body->classes[size_class];
  DCHECK(heap.slow_lock.is_held());
  DCHECK(!cs.mixed || cs.stash == nullptr);
  Span* span = cs.current;
  uint64_t unused = cs.sample_due != 0 ? 1 : 0;
  cs.sample_due = 0;
  heap.body->ready[size_class] = nullptr;
  ThreadCache* cache = heap.cache.load(std::memory_order_relaxed);  // null: lost with its thread, or by a fork
  if (cache != nullptr) unused += return_list_locked(heap, span, &cache->heads[size_class]);
  if (unused != 0) count_returned_unused(unused * kClasses[size_class].bytes);
  return_list_locked(heap, span, &cs.stash);
  cs.stash_count = 0;
  cs.current = nullptr;
  if (span != nullptr) file_owned_locked(heap, span);
}

void release_list_locked(SpanList& list) {
  for (Span* span = list.front(); span != nullptr;) {
    Span* next = span->next;
    list.remove(span);
    if (span->is_empty()) {
      retire(span);
    } else if (!central_put(span)) {
      list.push_front(span);
    }
    span = next;
  }
}

}  // namespace

void release_spans_locked(ThreadHeap& heap) {
  DCHECK(heap.slow_lock.is_held());
  drain_pending_locked(heap);
  for (ClassState& cs : heap.body->classes) {
    release_list_locked(cs.available);
    release_list_locked(cs.full);
    cs.low_water = 0;
    cs.last_use = 0;
    cs.borrowed = 0;
  }
}

void release_everything(ThreadHeap& heap) {
  DCHECK(heap.state.load(std::memory_order_relaxed) != HeapState::kZombie);
  publish_lists_of_ending(heap);
  LockGuard guard(heap.slow_lock);
  for (unsigned c = 0; c < kClassCount; c++) return_lists_locked(heap, c);
  release_spans_locked(heap);
  for (unsigned c = 0; c < kClassCount; c++) settle_refills(heap, c);
  heap.cache.store(nullptr, std::memory_order_relaxed);
  cached_total.fetch_sub(heap.cached_bytes, std::memory_order_relaxed);
  heap.cached_bytes = 0;
  DCHECK(heap.foreign_bytes == 0 && heap.cached_bytes == 0);
  heap.state.store(HeapState::kZombie, std::memory_order_seq_cst);
  // A remote free that has not seen the new state has pushed before this (remote.h, rule 4).
  release_spans_locked(heap);
}

// ---- a heap between two threads ----

namespace {

// Bytes of all spans of the heap. Stops counting above `most`, and then returns a number that is larger than `most`.
size_t span_bytes(const ThreadHeap& heap, size_t most) {
  size_t bytes = 0;
  for (const ClassState& cs : heap.body->classes) {
    if (cs.current != nullptr) bytes += cs.current->bytes;
    for (const SpanList* list : {&cs.available, &cs.full}) {
      for (const Span* span = list->front(); span != nullptr; span = span->next) {
        if ((bytes += span->bytes) > most) return bytes;
      }
    }
  }
  return bytes;
}

// Releases the empty available spans of classes that have a current span, because the next thread does not need them.
void retire_spare_spans(ThreadHeap& heap) {
  for (ClassState& cs : heap.body->classes) {
    Span* span = cs.available.front();
    if (cs.current == nullptr || span == nullptr || !span->is_empty()) continue;
    remove_available(cs, span);
    retire(span);
  }
}

}  // namespace

void take_from_this_thread(ThreadHeap& heap) {
  DCHECK(heap.slow_lock.is_held());
  DCHECK(thread_cache.heap == &heap && heap.cache.load(std::memory_order_relaxed) == &thread_cache);
  ThreadCache& kept = heap.body->kept;
  memcpy(kept.heads, thread_cache.heads, sizeof(kept.heads));
  memset(thread_cache.heads, 0, sizeof(thread_cache.heads));
  heap.cache.store(&kept, std::memory_order_release);
  __atomic_store_n(&thread_cache.heap, nullptr, __ATOMIC_RELAXED);
}

bool park(ThreadHeap& heap, size_t most_bytes) {
  LockGuard guard(heap.slow_lock);
  drain_pending_locked(heap);
  retire_spare_spans(heap);
  size_t bytes = span_bytes(heap, most_bytes);
  if (bytes > most_bytes) return false;
  heap.parked_bytes = static_cast<uint32_t>(bytes);
  // Keeps the lists as they are: returning the blocks to their spans would touch each of them (docs/decisions/0057).
  take_from_this_thread(heap);
  return true;
}

bool has_older_lists(const ThreadHeap& heap) {
  return heap.body->lists_since / kOptionChange != sample_changes.load(std::memory_order_relaxed) / kOptionChange;
}

void give_to_this_thread(ThreadHeap& heap) {
  DCHECK(thread_cache.heap == nullptr && heap.state.load(std::memory_order_relaxed) == HeapState::kActive);
  LockGuard guard(heap.slow_lock);
  ThreadCache& kept = heap.body->kept;
  heap.body->inherited_bytes = 0;
  heap.body->growths_seen = 0;
  if (heap.cache.load(std::memory_order_relaxed) == &kept) {
    memcpy(thread_cache.heads, kept.heads, sizeof(kept.heads));
  } else {
    heap.body->lists_since = sample_changes.load(std::memory_order_relaxed);
  }
  heap.cache.store(&thread_cache, std::memory_order_release);  // the thread's memory has been initialised: other
                                                               // threads may read it
  __atomic_store_n(&thread_cache.heap, &heap, __ATOMIC_RELEASE);  // pairs with read_lists()
}

}  // namespace seemalloc::heap

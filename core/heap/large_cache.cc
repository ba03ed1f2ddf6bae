#include "core/heap/large_cache.h"

#include "core/base/options.h"
#include "core/heap/central.h"
#include "core/heap/holes.h"
#include "core/heap/lost_threads.h"
#include "core/heap/pressure.h"
#include "core/heap/remote.h"
#include "core/heap/thread_heap.h"
#include "core/os/os.h"
#include "core/pages/page_heap.h"
#include "core/pages/purge.h"
#include "core/pages/span_pool.h"

namespace seemalloc::heap {

std::atomic<size_t> large_limit_bytes{0};
std::atomic<uint32_t> large_epoch{0};

namespace {

// One thread's share of the budget, of which half is for large spans: more than a fair one for few threads.
constexpr size_t kMaxBytesPerThread = 4 * MiB;

std::atomic<uint64_t> next_epoch_ns{0};

// Half a purge delay, but not longer because pages are kept for longer: what is given to the page heap is not given back yet.
uint64_t half_delay_ns() {
  constexpr uint64_t kLeast_ns = 50 * kMillisecond_ns;
  constexpr uint64_t kMost_ns = 500 * kMillisecond_ns;
  uint64_t half = pages::purge_delay_ns() / 2;
  return half < kLeast_ns ? kLeast_ns : half < kMost_ns ? half : kMost_ns;
}

}  // namespace

void share_large_budget(unsigned threads) {
  size_t share = thread_cache_budget() / (2 * (threads + 3));
  if (share > kMaxBytesPerThread) share = kMaxBytesPerThread;
  large_limit_bytes.store(pages::purge_mode() == options::Purge::kEager ? 0 : share, std::memory_order_relaxed);
}

size_t LargeCache::next_filled(size_t pages) {
  for (size_t word = pages / 64; word < sizeof(filled_) / sizeof(filled_[0]); word++) {
    uint64_t bits = filled_[word];
    if (word == pages / 64) bits &= ~uint64_t{0} << (pages % 64);
    for (; bits != 0; bits &= bits - 1) {
      size_t found = word * 64 + static_cast<size_t>(__builtin_ctzll(bits));
      if (lists_[found] != nullptr) return found;
      filled_[word] &= ~(bits & -bits);
    }
  }
  return kLists;
}

Span* LargeCache::take_larger(size_t page_count) {
  if (!lock_.enter()) return nullptr;
  file_last();
  size_t pages = next_filled(page_count);
  Span* span = pages <= page_count + page_count / 8 && pages != kLists ? take_first(pages) : nullptr;
  lock_.leave();
  return span;
}

bool LargeCache::put_making_room(Span* span) {
  size_t limit = large_limit_bytes.load(std::memory_order_relaxed);
  if (span->bytes > limit || !lock_.enter()) return false;
  make_room(span->bytes, limit);
  push(span, bytes_ + span->bytes);
  lock_.leave();
  note_slow_free();
  return true;
}

// Lists take turns, so that sizes no longer asked for make room for those that are.
void LargeCache::make_room(size_t bytes, size_t limit) {
  file_last();
  while (bytes_ + bytes > limit) {
    size_t pages = next_filled(victim_);
    if (pages == kLists) pages = next_filled(0);
    if (pages == kLists) return;
    pages::release(take_first(pages));
    victim_ = static_cast<uint16_t>(pages + 1);
  }
}

// The span freed last is in front, so the older ones are the list's end.
void LargeCache::drop_before(size_t pages, uint32_t epoch) {
  Span* kept = nullptr;
  Span* span = lists_[pages];
  for (; span != nullptr && static_cast<int32_t>(epoch - span->cached_epoch) <= 0; span = span->next) kept = span;
  if (kept != nullptr) {
    __atomic_store_n(&kept->next, nullptr, __ATOMIC_RELEASE);
  } else {
    set_list(pages, nullptr);
  }
  while (span != nullptr) {
    Span* next = span->next;
    set_bytes(bytes_ - span->bytes);
    pages::release(span);
    span = next;
  }
}

void LargeCache::flush_before(uint32_t epoch) {
  file_last();
  for (size_t pages = next_filled(0); pages != kLists; pages = next_filled(pages + 1)) drop_before(pages, epoch);
}

void LargeCache::flush() {
  while (!lock_.enter()) os::pause(50 * kMicrosecond_ns);
  flush_before(large_epoch.load(std::memory_order_relaxed) + 1);
  lock_.leave();
}

// Writes only what is wrong: the pages of an idle heap are the parent's, or none at all.
void LargeCache::reset() {
  lock_.reset();
  // A span on its way from there to its list is in both.
  if (last_ != nullptr && lists_[last_->bytes >> kPageShift] == last_) set_last(nullptr);
  size_t bytes = last_ != nullptr ? last_->bytes : 0;
  for (size_t pages = 0; pages < kLists; pages++) {
    uint64_t bit = uint64_t{1} << (pages % 64);
    if (lists_[pages] != nullptr && (filled_[pages / 64] & bit) == 0) filled_[pages / 64] |= bit;
    for (Span* span = lists_[pages]; span != nullptr; span = span->next) bytes += span->bytes;
  }
  if (bytes_ != bytes) bytes_ = bytes;
}

void LargeCache::flush_idle(uint32_t epoch) {
  if (bytes() == 0 || !lock_.try_close()) return;
  flush_before(epoch);
  lock_.open();
}

namespace {
void flush_idle_large_caches(uint32_t epoch) {
  unsigned active = 0;
  for (ThreadHeap* heap = all_heaps(); heap != nullptr; heap = heap->next_all) {
    if (heap->state.load(std::memory_order_relaxed) != HeapState::kActive) continue;
    heap->body->large.flush_idle(epoch);
    active++;
  }
  share_large_budget(active);
}
}  // namespace

// Of records that go back at a tick: 20 µs of a free, where there is no helper.
constexpr size_t kMostRecordPages = 1024, kMostRecordPagesOfAFree = 64;

void tick(bool by_helper) {
  uint64_t now = os::coarse_monotonic_ns();
  uint64_t due = next_epoch_ns.load(std::memory_order_relaxed);
  if (now >= due && next_epoch_ns.compare_exchange_strong(due, now + half_delay_ns() + kMillisecond_ns, std::memory_order_relaxed)) {
    flush_idle_large_caches(large_epoch.fetch_add(1, std::memory_order_relaxed));
    release_lost(false);
    release_parked();
    if (pages::purge_mode() != options::Purge::kNever) {
      purge_idle_bodies();
      pages::purge_old_span_records(by_helper ? kMostRecordPages : kMostRecordPagesOfAFree);
    }
    central_publish_lists(false);
    reclaim_for_sleepers();
    central_trim();
    relax_sample_distances();
    watch_without_helper();
  }
  pages::tick(by_helper);
  purge_holes_if_due(now);
  if (!by_helper) note_slow_free();
}

size_t purge_all(os::Reason reason, uint64_t most_in_holes_ns) {
  release_lost(true);
  release_parked();
  central_publish_lists(true);
  reclaim_for_sleepers();
  retire_empty_spans();
  flush_idle_large_caches(large_epoch.load(std::memory_order_relaxed) + 1);
  // What is free as a whole first: where memory is short that is the most in the least time.
  size_t bytes = pages::purge_all(reason);
  bytes += purge_all_holes(most_in_holes_ns);
  return bytes + pages::purge_span_records();
}

}  // namespace seemalloc::heap

#include "core/heap/large_cache.h"

#include "core/base/options.h"
#include "core/heap/central.h"
#include "core/heap/remote.h"
#include "core/heap/thread_heap.h"
#include "core/os/os.h"
#include "core/pages/page_heap.h"

namespace seemalloc::heap {

std::atomic<size_t> large_limit_bytes{0};
std::atomic<uint32_t> large_epoch{0};

namespace {

// One thread's share of the budget of all.
constexpr size_t kMaxBytesPerThread = 2 * MiB;

std::atomic<uint64_t> next_epoch_ns{0};

}  // namespace

void share_large_budget(unsigned threads) {
  size_t share = options::get(options::Id::thread_cache) / (2 * (threads == 0 ? 1 : threads));
  if (share > kMaxBytesPerThread) share = kMaxBytesPerThread;
  large_limit_bytes.store(options::get(options::Id::purge_delay) == 0 ? 0 : share, std::memory_order_relaxed);
}

Span* LargeCache::take_any(size_t page_count) {
  if (bytes_ == 0) return nullptr;
  for (unsigned slot = 0; slot < kSlots; slot++) {
    Span* span = spans_[slot];
    if (span == nullptr) continue;
    size_t have = span->bytes >> kPageShift;
    if (have < page_count || have - page_count > page_count / 8) continue;
    take_slot(slot);
    last_ = slot;
    return span;
  }
  return nullptr;
}

void LargeCache::make_room(size_t bytes, size_t limit) {
  unsigned slot = 0;
  while (slot < kSlots && spans_[slot] != nullptr) slot++;
  if (slot == kSlots) drop(slot = victim_);
  for (; bytes_ + bytes > limit; victim_ = (victim_ + 1) % kSlots) drop(victim_);
  last_ = slot;
}

void LargeCache::drop(unsigned slot) {
  Span* span = spans_[slot];
  if (span == nullptr) return;
  spans_[slot] = nullptr;
  set_bytes(bytes_ - span->bytes);
  pages::release(span);
}

void LargeCache::flush_before(uint32_t epoch) {
  for (unsigned i = 0; i < kSlots; i++) {
    if (static_cast<int32_t>(epoch - epochs_[i]) > 0) drop(i);
  }
}

void LargeCache::flush() {
  while (!lock_.enter()) os::pause(50 * kMicrosecond_ns);
  flush_before(large_epoch.load(std::memory_order_relaxed) + 1);
  lock_.leave();
}

void LargeCache::reset() {
  lock_.reset();
  bytes_ = 0;
  for (Span* span : spans_) bytes_ += span != nullptr ? span->bytes : 0;
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

void tick() {
  uint64_t now = os::coarse_monotonic_ns();
  uint64_t due = next_epoch_ns.load(std::memory_order_relaxed);
  uint64_t half_delay = options::get(options::Id::purge_delay) * kMillisecond_ns / 2;
  if (now >= due && next_epoch_ns.compare_exchange_strong(due, now + half_delay, std::memory_order_relaxed)) {
    flush_idle_large_caches(large_epoch.fetch_add(1, std::memory_order_relaxed));
    purge_idle_bodies();
    central_publish_lists(false);
    reclaim_for_sleepers();
    central_trim();
    if (sample_distances_stretched.exchange(false, std::memory_order_relaxed)) invalidate_sample_distances();
  }
  pages::tick();
}

size_t purge_all() {
  central_publish_lists(true);
  reclaim_for_sleepers();
  flush_idle_large_caches(large_epoch.load(std::memory_order_relaxed) + 1);
  return pages::purge_all();
}

}  // namespace seemalloc::heap

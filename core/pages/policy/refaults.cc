#include "core/pages/policy/refaults.h"

#include <atomic>

#include "core/base/check.h"
#include "core/base/counters.h"
#include "core/os/kernel/clock.h"
#include "core/pages/span/shard.h"

namespace seemalloc::pages {

namespace {

std::atomic<uint32_t> window{0};
std::atomic<uint64_t> window_stale_ns{0};
// Huge memory purged in this window and in the one before, and not mapped again since.
std::atomic<size_t> huge_gone{0}, huge_gone_before{0};
std::atomic<uint64_t> huge_refaulted{0}, huge_refaulted_at_once{0}, huge_refaulted_runs{0};

}  // namespace

void note_gone(Region* region, unsigned first, unsigned pages, bool at_once) {
  DCHECK(shards[region->shard].lock.is_held());
  DCHECK(!region->used.any(first, pages) && !region->is_dirty(first, pages) &&
         !region->lazy.any(first, pages));
  uint32_t now = window.load(std::memory_order_relaxed);
  if (region->gone_window != now) {
    region->gone_before = region->gone_window + 1 == now ? region->gone : PageBits();
    region->gone = PageBits();
    region->gone_window = now;
  }
  region->gone.set(first, pages);
  if (at_once) {
    region->gone_at_once.set(first, pages);
  } else {
    region->gone_at_once.clear(first, pages);
  }
}

void note_refaults(Shard& shard, Region* region, unsigned first, unsigned pages) {
  DCHECK(shard.lock.is_held());
  if (!region->gone.any(first, pages) && !region->gone_before.any(first, pages)) return;
  uint32_t ago = window.load(std::memory_order_relaxed) - region->gone_window;
  if (os::coarse_monotonic_ns() > window_stale_ns.load(std::memory_order_relaxed)) ago = 2;
  PageBits again;
  if (ago <= 1) again |= region->gone;
  if (ago == 0) again |= region->gone_before;
  size_t all = again.count(first, pages);
  again -= region->gone_at_once;
  size_t delayed = again.count(first, pages);
  DCHECK(delayed <= all && all <= pages);
  shard.refaulted_delayed_pages += delayed;
  shard.refaulted_pages += all;
  shard.refaulted_runs += all != 0;
  region->gone.clear(first, pages);
  region->gone_before.clear(first, pages);
}

void note_huge_gone(size_t bytes) { huge_gone.fetch_add(bytes, std::memory_order_relaxed); }

void note_huge_mapped(size_t bytes, bool gone_at_once) {
  size_t wanted = bytes;
  for (std::atomic<size_t>* gone : {&huge_gone, &huge_gone_before}) {
    size_t left = gone->load(std::memory_order_relaxed);
    size_t again = left < bytes ? left : bytes;
    if (again == 0 || !gone->compare_exchange_strong(left, left - again, std::memory_order_relaxed))
      continue;
    huge_refaulted.fetch_add(again, std::memory_order_relaxed);
    bytes -= again;
  }
  if (gone_at_once) {
    huge_refaulted_at_once.fetch_add(bytes, std::memory_order_relaxed);
    bytes = 0;
  }
  if (bytes != wanted) huge_refaulted_runs.fetch_add(1, std::memory_order_relaxed);
}

void begin_refault_window(uint64_t stale_ns) {
  window.fetch_add(1, std::memory_order_relaxed);
  window_stale_ns.store(stale_ns, std::memory_order_relaxed);
  huge_gone_before.store(huge_gone.exchange(0, std::memory_order_relaxed),
                         std::memory_order_relaxed);
}

Refaults refaults() {
  uint64_t huge = huge_refaulted.load(std::memory_order_relaxed);
  uint64_t at_once = huge_refaulted_at_once.load(std::memory_order_relaxed);
  Refaults sum{huge_refaulted_runs.load(std::memory_order_relaxed), huge + at_once, huge};
  for (unsigned i = 0; i < shards_in_use(); i++) {
    LockGuard guard(shards[i].lock);
    sum.runs += shards[i].refaulted_runs;
    sum.bytes += shards[i].refaulted_pages * kPageBytes;
    sum.delayed_bytes += shards[i].refaulted_delayed_pages * kPageBytes;
  }
  return sum;
}

void forget_refaults_in_child() {
  set_to_zero(huge_refaulted, huge_refaulted_at_once, huge_refaulted_runs);
  for (Shard& shard : shards)
    shard.refaulted_pages = shard.refaulted_delayed_pages = shard.refaulted_runs = 0;
}

}  // namespace seemalloc::pages

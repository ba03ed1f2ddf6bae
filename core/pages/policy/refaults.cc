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
std::atomic<size_t> huge_purged{0}, huge_purged_before{0};
std::atomic<uint64_t> huge_refaulted{0}, huge_refaulted_at_once{0}, huge_refaulted_runs{0};

}  // namespace

void note_purged(Region* region, unsigned first, unsigned pages, bool at_once) {
  DCHECK(shards[region->shard].lock.is_held());
  DCHECK(!region->used.any(first, pages) && !region->is_dirty(first, pages) &&
         !region->lazy.any(first, pages));
  uint32_t now = window.load(std::memory_order_relaxed);
  if (region->purged_window != now) {
    region->purged_last_window =
        region->purged_window + 1 == now ? region->purged_recently : PageBits();
    region->purged_recently = PageBits();
    region->purged_window = now;
  }
  region->purged_recently.set(first, pages);
  if (at_once) {
    region->purged_on_request.set(first, pages);
  } else {
    region->purged_on_request.clear(first, pages);
  }
}

void note_refaults(Shard& shard, Region* region, unsigned first, unsigned pages) {
  DCHECK(shard.lock.is_held());
  if (!region->purged_recently.any(first, pages) && !region->purged_last_window.any(first, pages))
    return;
  uint32_t ago = window.load(std::memory_order_relaxed) - region->purged_window;
  if (os::coarse_monotonic_ns() > window_stale_ns.load(std::memory_order_relaxed)) ago = 2;
  PageBits again;
  if (ago <= 1) again |= region->purged_recently;
  if (ago == 0) again |= region->purged_last_window;
  size_t all = again.count(first, pages);
  again -= region->purged_on_request;
  size_t delayed = again.count(first, pages);
  DCHECK(delayed <= all && all <= pages);
  shard.refaulted_delayed_pages += delayed;
  shard.refaulted_pages += all;
  shard.refaulted_runs += all != 0;
  region->purged_recently.clear(first, pages);
  region->purged_last_window.clear(first, pages);
}

void note_huge_purged(size_t bytes) { huge_purged.fetch_add(bytes, std::memory_order_relaxed); }

void note_huge_mapped(size_t bytes, bool purged_on_request) {
  size_t wanted = bytes;
  for (std::atomic<size_t>* gone : {&huge_purged, &huge_purged_before}) {
    size_t left = gone->load(std::memory_order_relaxed);
    size_t again = left < bytes ? left : bytes;
    if (again == 0 || !gone->compare_exchange_strong(left, left - again, std::memory_order_relaxed))
      continue;
    huge_refaulted.fetch_add(again, std::memory_order_relaxed);
    bytes -= again;
  }
  if (purged_on_request) {
    huge_refaulted_at_once.fetch_add(bytes, std::memory_order_relaxed);
    bytes = 0;
  }
  if (bytes != wanted) huge_refaulted_runs.fetch_add(1, std::memory_order_relaxed);
}

void begin_refault_window(uint64_t stale_ns) {
  window.fetch_add(1, std::memory_order_relaxed);
  window_stale_ns.store(stale_ns, std::memory_order_relaxed);
  huge_purged_before.store(huge_purged.exchange(0, std::memory_order_relaxed),
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

void reset_refaults_in_child() {
  set_to_zero(huge_refaulted, huge_refaulted_at_once, huge_refaulted_runs);
  for (Shard& shard : shards)
    shard.refaulted_pages = shard.refaulted_delayed_pages = shard.refaulted_runs = 0;
}

}  // namespace seemalloc::pages

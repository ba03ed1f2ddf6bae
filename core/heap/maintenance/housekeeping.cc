#include "core/heap/maintenance/housekeeping.h"

#include <atomic>

#include "core/base/options.h"
#include "core/base/units.h"
#include "core/heap/maintenance/holes.h"
#include "core/heap/maintenance/pressure.h"
#include "core/heap/maintenance/registry.h"
#include "core/heap/maintenance/walk_gate.h"
#include "core/heap/spans/central.h"
#include "core/heap/spans/publish.h"
#include "core/heap/thread/helper_link.h"
#include "core/heap/thread/large_cache.h"
#include "core/heap/thread/sample_distance.h"
#include "core/heap/thread/sample_growth.h"
#include "core/os/kernel/clock.h"
#include "core/pages/page_heap/page_heap.h"
#include "core/pages/page_heap/purge.h"
#include "core/pages/policy/purge_policy.h"
#include "core/pages/span/span_pool.h"

namespace seemalloc::heap {

namespace {

std::atomic<uint64_t> next_epoch_ns{0};

// Half a purge delay, but not longer because pages are kept for longer: a span that goes to the
// page heap is not purged at once anyway.
uint64_t half_delay_ns() {
  constexpr uint64_t kMinNs = 50 * kMillisecondNs;
  constexpr uint64_t kMaxNs = 500 * kMillisecondNs;
  uint64_t half = pages::purge_delay_ns() / 2;
  return half < kMinNs ? kMinNs : half < kMaxNs ? half : kMaxNs;
}

// Span records purged at a tick. For a free, where there is no helper thread, it is 20 µs of work.
constexpr size_t kMaxRecordPages = 1024, kMaxRecordPagesPerFree = 64;

void begin_large_cache_epoch(bool by_helper) {
  flush_idle_large_caches(large_cache_epoch.fetch_add(1, std::memory_order_relaxed));
  release_orphaned_heaps(false);
  release_abandoned_heaps();
  if (pages::purge_mode() != options::Purge::kNever) {
    purge_idle_bodies();
    pages::purge_old_span_records(by_helper ? kMaxRecordPages : kMaxRecordPagesPerFree);
  }
  publish_central_lists(false);
  reclaim_for_sleeping_owners();
  central_release_empty_shared();
}

}  // namespace

void tick(bool by_helper) {
  // A signal handler that interrupts housekeeping may free blocks. The outer call does the work:
  // the stack may be small.
  if (walk_gate.entered_by_this_thread()) return;
  uint64_t now = os::coarse_monotonic_ns();
  uint64_t due = next_epoch_ns.load(std::memory_order_relaxed);
  // if the gate is closed, it is due again at the next tick.
  if (now >= due && walk_gate.enter()) {
    bool mine = next_epoch_ns.compare_exchange_strong(due, now + half_delay_ns() + kMillisecondNs,
                                                      std::memory_order_relaxed);
    if (mine) begin_large_cache_epoch(by_helper);
    walk_gate.leave();
    if (mine) {
      growth_watch.tick(pages::bytes_in_spans());
      redraw_backed_off_samples();
      check_pressure_by_tick();
    }
  }
  pages::tick(by_helper);
  purge_holes_if_due(now);
  if (!by_helper) note_slow_free();
}

}  // namespace seemalloc::heap

#include "core/compat/stats_snapshot.h"

#include "core/api/malloc/process.h"
#include "core/api/service/report.h"
#include "core/heap/reports/statistics.h"
#include "core/os/kernel/calls.h"
#include "core/os/runtime/lock.h"
#include "core/pages/huge/huge.h"
#include "core/pages/page_heap/page_heap.h"

namespace seemalloc::compat {

namespace {

Lock lock;
constinit Snapshot stored{};

// The parts are counted one after the other while other threads run, so a difference may be below
// zero: then 0.
size_t saturating_subtract(size_t a, size_t b) { return a > b ? a - b : 0; }
size_t smaller(size_t a, size_t b) { return a < b ? a : b; }

void count_purges(Snapshot& n) {
  for (os::Call call : {os::Call::kDontNeed, os::Call::kFree}) {
    for (os::Reason reason :
         {os::Reason::kDecay, os::Reason::kRequested, os::Reason::kPressure, os::Reason::kHole}) {
      os::CallCount count = os::call_count(call, reason);
      n.purge_calls += count.calls;
      n.purged_bytes += count.bytes;
    }
  }
}

}  // namespace

void take_snapshot(Snapshot* out) {
  heap::Statistics s = heap::statistics();
  MemoryReport report = memory_report(s, false);
  pages::PageStatistics regions = pages::page_statistics();
  pages::HugeStatistics huge = pages::huge_statistics();
  Snapshot& n = *out;
  n = Snapshot{};
  n.heap = regions.mapped_bytes + huge.used_bytes + huge.cached_bytes;
  n.free_dirty = smaller(regions.dirty_bytes + regions.lazy_bytes + huge.cached_bytes, n.heap);
  n.free_clean = saturating_subtract(n.heap, regions.used_bytes + huge.used_bytes + n.free_dirty);
  n.allocated = smaller(s.live_bytes, n.active());
  n.cached = smaller(s.cached_bytes, n.active() - n.allocated);
  n.fragmentation = n.active() - n.allocated - n.cached;
  n.large = s.large_bytes;
  n.metadata = report.metadata;
  n.resident = n.active() + n.free_dirty + n.metadata;
  if (report.rss != 0) n.resident = smaller(n.resident, report.rss);
  n.threads = s.live_heaps;
  n.uptime_ns = uptime_ns();
  count_purges(n);
  for (unsigned i = 0; i < heap::kClassCount; i++) {
    n.classes[i] = {s.classes[i].live, s.classes[i].cached + s.classes[i].free, s.classes[i].spans};
  }
}

void refresh_snapshot() {
  Snapshot fresh;
  take_snapshot(&fresh);
  LockGuard guard(lock);
  fresh.epoch = stored.epoch + 1;
  stored = fresh;
}

void current_snapshot(Snapshot* out) {
  for (int tries = 0; tries < 2; tries++) {
    {
      LockGuard guard(lock);
      *out = stored;
    }
    if (out->epoch != 0) return;
    refresh_snapshot();
  }
}

void reset_snapshot_in_child() {
  lock.reset();
  stored = Snapshot{};
}

}  // namespace seemalloc::compat

#include "core/heap/maintenance/purge_all.h"

#include "core/heap/maintenance/registry.h"
#include "core/heap/maintenance/walk_gate.h"
#include "core/heap/spans/publish.h"
#include "core/heap/thread/large_cache.h"
#include "core/pages/page_heap/purge.h"
#include "core/pages/span/span_pool.h"

namespace seemalloc::heap {

size_t purge_all(os::Reason reason, uint64_t most_in_holes_ns) {
  if (walk_gate.enter()) {
    release_orphaned_heaps(true);
    release_abandoned_heaps();
    publish_central_lists(true);
    reclaim_for_sleeping_owners();
    release_empty_spans();
    flush_idle_large_caches(large_cache_epoch.load(std::memory_order_relaxed) + 1);
    walk_gate.leave();
  }
  // Whole free pages first: when memory is short, that frees the most in the least time.
  size_t bytes = pages::purge_all(reason);
  bytes += purge_all_holes(most_in_holes_ns);
  return bytes + pages::purge_span_records();
}

HousekeepingPause::HousekeepingPause() : alone_(walk_gate.begin_walk()) {}
HousekeepingPause::~HousekeepingPause() { walk_gate.end_walk(); }

}  // namespace seemalloc::heap

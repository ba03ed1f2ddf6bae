#include "core/api/sampling/memory_report.h"

#include "core/api/sampling/sampling.h"
#include "core/heap/reports/residency.h"
#include "core/os/process/process.h"
#include "core/os/runtime/arena.h"
#include "core/pages/huge/huge.h"
#include "core/pages/page_heap/page_heap.h"
#include "core/pages/span/memory_account.h"
#include "core/pages/span/page_map.h"
#include "core/profile/sampling/square_root.h"

namespace seemalloc {

namespace {

// Makes the parts add up to the process's resident memory. They were counted one after the other
// while the program ran, and the kernel reports pages as resident that it does not count in RSS:
// pages that were only ever read (the zero page). Both errors are mostly in live blocks.
void reconcile_with_rss(MemoryReport& r, size_t resident_files) {
  size_t most = saturating_subtract(r.rss, resident_files),
         ours = r.live + r.cached + r.fragmentation + r.metadata;
  if (r.rss != 0 && ours > most) {
    size_t excess = ours - most;
    r.uncertain += excess;
    ours = most;
    for (size_t* part : {&r.live, &r.cached, &r.fragmentation, &r.metadata}) {
      size_t cut = excess < *part ? excess : *part;
      *part -= cut;
      excess -= cut;
    }
  }
  if (r.dirty > r.cached) r.dirty = r.cached;
  r.not_ours = saturating_subtract(r.rss, ours);
}

}  // namespace

MemoryReport memory_report(const heap::Statistics& s, bool with_residency) {
  pages::PageStatistics regions = pages::page_statistics();
  pages::HugeStatistics huge = pages::huge_statistics();
  MemoryReport r{};
  os::ResidentSet resident = os::resident_set();
  r.rss = resident.bytes;
  r.live_allocated = s.live_bytes;
  r.dirty = regions.dirty_bytes + huge.cached_bytes;
  r.mapped = regions.mapped_bytes + huge.used_bytes + huge.cached_bytes +
             pages::page_map.map_bytes() + os::arena_mapped_bytes();
  size_t python_names = python_name_bytes();
  r.metadata = pages::metadata_bytes(regions.regions) + python_names;
  r.mapped += python_names;
  if (!with_residency) return r;
  heap::Residency parts = heap::residency(s);
  constexpr double kErrors = 3;  // standard errors
  r.live = parts.live;
  r.dirty = parts.dirty;
  r.unused = parts.unused;
  r.cached = parts.cached + parts.dirty + parts.unused;
  r.fragmentation = parts.fragmentation;
  r.uncertain =
      parts.uncertain_bytes + static_cast<size_t>(kErrors * profile::square_root(parts.variance));
  r.kernel_answered = parts.kernel_answered;
  reconcile_with_rss(r, resident.file_bytes);
  if (r.rss != 0 && r.uncertain > r.rss) r.uncertain = r.rss;
  return r;
}

}  // namespace seemalloc

// Sweep: a walk over a shard's dirty regions that purges some of their pages. purge.cc decides when
// and how much.
//
// Works on one region at a time: runs to be purged are detached (marked as in use), so that no lock
// is held across the system calls, and reattached as clean. Each range is tried once per sweep: if
// its purge is refused it is dirty, as if just freed.
// Threads: any, several sweeps at once.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/base/units.h"
#include "core/os/kernel/calls.h"

namespace seemalloc::pages {

class PurgeBudget;
struct Region;
struct Shard;

// A call costs as much as about ten pages: a range of at least this size is always worth one.
inline constexpr unsigned kMinPurgeCallPages = 64 * KiB / kPageBytes;

// Selects free pages by age. Each value includes the pages of the ones before it.
enum class PageSelection { kDue, kOld, kDirty, kEverything };

// Regions that a walk checks before it releases the shard's lock.
inline constexpr unsigned kChecksPerLock = 64;

// Which huge pages may be split to purge their free part. Huge pages that are free as a whole may
// be purged at any time.
enum class SplitHugePages { kNone, kSparse, kAny };

struct SweepState {
  PageSelection selection = PageSelection::kDue;
  unsigned min_run_pages = 1;     // minimum pages of a range
  PurgeBudget* budget = nullptr;  // pays for the sweep's time
  // On request or under memory pressure: the delay plays no part, and no page is left to the kernel
  // (MADV_FREE).
  bool on_request = false;
  os::Reason reason = os::Reason::kDecay;
  size_t pages_left = SIZE_MAX;  // purge at most about this many pages; counted down
  size_t purged_bytes = 0;       // counted up
  bool refused = false;          // nothing of some region could be purged
  bool postponed = false;        // the budget was spent before the end
  SplitHugePages split_huge_pages = SplitHugePages::kAny;
};

// Makes the free pages of resting regions visible to the purge again. Requires: no lock held.
void unhide_resting_regions(Shard& shard);

// Requires: no lock held, as do all of these.
void sweep(Shard& shard, SweepState* s);
void sweep_all(SweepState* s);

// For eager mode. Call with the shard's lock held, after pages including `first` have been freed:
// notes the region if the run around `first` is large enough to be purged immediately.
void queue_immediate_purge(Shard& shard, Region* region, unsigned first);
// Purges such runs. Returns their bytes.
size_t sweep_immediate();

// In a forked child, with the shard's lock held: the sweeping thread exists only in the parent, so
// its detached pages are reattached.
void reattach_all_locked(Shard& shard);

}  // namespace seemalloc::pages

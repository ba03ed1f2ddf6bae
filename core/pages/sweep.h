// Sweep: a walk over a shard's dirty regions that gives some of their pages back to the system. When and how much: purge.cc.
//
// One region at a time: runs to be purged are taken out of the books as if in use, so that no lock is held across the system
// calls, and put back clean. Each range is tried once in a sweep: what is refused is dirty as if just freed.
// Threads: any, several sweeps at once.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/base/units.h"
#include "core/os/calls.h"

namespace seemalloc::pages {

class PurgeBudget;
struct Region;
struct Shard;

// A call costs as much as some ten pages: from here on a range is worth one at any time.
inline constexpr unsigned kWorthACall_pages = 64 * KiB / kPageBytes;

// Which free pages: each has those of the ones before it.
enum class What { kDue, kOld, kDirty, kEverything };

// Regions that a walk looks at before others may have the shard's lock.
inline constexpr unsigned kLooksPerLock = 64;

// Which huge pages may be taken apart for the part of them that is free. Whole ones go at any time.
enum class Apart { kNone, kSparse, kAny };

struct Sweeping {
  What what = What::kDue;
  unsigned least = 1;             // pages of a range
  PurgeBudget* budget = nullptr;  // what its time is taken from
  bool on_request = false;        // somebody has asked for it, or memory is short: the delay has no part in it, and nothing is left to the kernel
  os::Reason reason = os::Reason::kDecay;
  size_t pages_left = SIZE_MAX;   // at most about so many are given back; counted down
  size_t given_bytes = 0;         // counted up
  bool refused = false;           // of some region nothing went
  bool postponed = false;         // the budget was spent before the end
  Apart apart = Apart::kAny;
};

// What is free of dense huge pages is in the purge's sight again. Requires: no lock held.
void wake_resting(Shard& shard);

// Requires: no lock held, as all of these.
void sweep(Shard& shard, Sweeping* s);
void sweep_all(Sweeping* s);

// The mode eager. With the shard's lock held, after pages have been freed of which `first` is one: is the run around it large
// enough to go at once?
void note_ripe(Shard& shard, Region* region, unsigned first);
// Gives such runs back. Returns their bytes.
size_t sweep_ripe();

// In a forked child, with the shard's lock held: the thread that was sweeping is the parent's, so what it had detached is put back.
void reattach_all_locked(Shard& shard);

}  // namespace seemalloc::pages

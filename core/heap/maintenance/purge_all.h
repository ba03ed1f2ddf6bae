// Purges all free memory that needs no cooperation of other threads, and pauses such work while a
// thread walks the lists. Threads: any.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/heap/maintenance/holes.h"
#include "core/os/kernel/calls.h"

namespace seemalloc::heap {

// Purges every free page now, other threads' cached large spans and empty spans included, and the
// holes in spans that it reaches in about `most_in_holes_ns`. Returns the bytes returned to the OS.
size_t purge_all(os::Reason reason = os::Reason::kRequested,
                 uint64_t most_in_holes_ns = UINT64_MAX);

// While an object of this class exists, neither tick() nor purge_all() changes lists, in any
// thread, so the lists can be walked. Requires: no lock held; not constructed within either of
// them.
class HousekeepingPause {
 public:
  HousekeepingPause();
  ~HousekeepingPause();
  // False if another thread has been at work for too long to wait for it.
  bool has_no_workers() const { return alone_; }
  HousekeepingPause(const HousekeepingPause&) = delete;
  HousekeepingPause& operator=(const HousekeepingPause&) = delete;

 private:
  HolePurgePause no_holes_;
  bool alone_;
};

}  // namespace seemalloc::heap

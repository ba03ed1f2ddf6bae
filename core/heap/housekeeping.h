// Housekeeping: periodic work for all threads. It purges unused memory and empties the heaps of exited threads.
//
// Callers: slow paths (a free that empties a span, a large free), the helper thread, requests for a purge. Threads:
// any, except while a thread walks all lists (walk_gate.h).
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/heap/holes.h"
#include "core/os/calls.h"

namespace seemalloc::heap {

// When it is due, releases the large spans that idle threads keep and purges pages that have been free for a while.
// Cheap when it is not due: reads a clock. Requires: no lock held (it makes system calls).
void tick(bool by_helper = false);
// Purges every free page now, other threads' cached large spans and empty spans included, and the holes in spans that
// it reaches in about `most_in_holes_ns`. Returns the bytes returned to the OS.
size_t purge_all(os::Reason reason = os::Reason::kAsked, uint64_t most_in_holes_ns = UINT64_MAX);

// While an object of this class exists, neither tick() nor purge_all() changes lists, in any thread, so the lists can
// be walked. Requires: no lock held; not constructed within either of them.
class HousekeepingPause {
 public:
  HousekeepingPause();
  ~HousekeepingPause();
  // False if another thread has been at work for too long to wait for it.
  bool is_alone() const { return alone_; }
  HousekeepingPause(const HousekeepingPause&) = delete;
  HousekeepingPause& operator=(const HousekeepingPause&) = delete;

 private:
  HolePurgePause no_holes_;
  bool alone_;
};

// The child does not have the parent's threads that were at work or walking.
void forget_housekeeping_in_child();

}  // namespace seemalloc::heap

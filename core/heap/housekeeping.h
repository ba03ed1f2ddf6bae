// What is done for all threads from time to time: memory that nobody uses goes back, lists whose thread is gone are handed on.
//
// Who calls: slow paths (a free that empties a span, a large free), the helper thread, who asks for a purge. Threads: any, but for those
// that walk all lists meanwhile (walk_gate.h).
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/heap/holes.h"
#include "core/os/os.h"

namespace seemalloc::heap {

// Gives large spans that idle threads keep, and pages that have been free for a while, back when it is time. Cheap when it
// is not: reads a clock. Requires: no lock held (it makes system calls).
void tick(bool by_helper = false);
// Gives every free page back now, other threads' cached large spans and empty spans included; of holes in spans what can be
// had in about `most_in_holes_ns`. Returns bytes given back to the system.
size_t purge_all(os::Reason reason = os::Reason::kAsked, uint64_t most_in_holes_ns = UINT64_MAX);

// While alive neither changes lists, by the helper thread or this one: they can be walked. Requires: no lock held; not made within either.
class HousekeepingPause {
 public:
  HousekeepingPause();
  ~HousekeepingPause();
  // False when somebody has been at it for too long to be waited for.
  bool is_alone() const { return alone_; }
  HousekeepingPause(const HousekeepingPause&) = delete;
  HousekeepingPause& operator=(const HousekeepingPause&) = delete;

 private:
  HolePurgePause no_holes_;
  bool alone_;
};

// Who was at it, or walked, is not there.
void forget_housekeeping_in_child();

}  // namespace seemalloc::heap

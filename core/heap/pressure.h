// Pressure: sees that memory is getting short, by heap_soft_limit, the cgroup's limit or the kernel's word, and has the heap give back
// early what it keeps.
//
// Who looks: the helper, the sooner the nearer the limit; and slow paths, each time the heap has grown by a part of what room is
// left, so that a burst is met in time. A look reads a few files when there is a limit, else none. Without a helper ticks look.
// Threads: any; one at a time looks, the others go on. Requires of all that give back: no lock held.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/base/options.h"
#include "core/pages/backing.h"

namespace seemalloc::heap {

// A slow path's, once pages::backing.look_is_due(). The caller is about to write to so many bytes that have no memory yet.
void look_at_pressure(size_t upcoming_bytes);

// The helper's. `stalled`: the kernel has reported that tasks wait for memory. Returns when to call again at the latest, in ns.
uint64_t watch_pressure(bool stalled);
// Does the helper's work where there is none. Called by ticks.
void watch_without_helper();

// What all threads together may keep: thread_cache, or less where there is little. Held against what they keep on lists of
// available spans, when they collect: current spans and malloc lists are beyond it.
inline size_t thread_cache_budget() {
  size_t budget = options::get(options::Id::thread_cache);
  return budget < pages::reserve_limit() ? budget : pages::reserve_limit();
}

// At load, before there are threads.
void pressure_options_read();
// A limit was set, or the watching turned on or off.
void pressure_options_changed();
// In a forked child: nobody looks. Its cgroup may be another soon.
void forget_pressure_in_child();

// The path of a file of the process's memory cgroup, of version 2, into `path` (os::MemoryGroup::kMaxPath bytes).
enum class GroupFile {
  kFound,
  kNone,
  kAskAgain,  // somebody looks just now
};
GroupFile memory_group_file(const char* name, char* path);

// The right to look, where nobody else does.
class PressureTurn {
 public:
  PressureTurn();
  ~PressureTurn();
  PressureTurn(const PressureTurn&) = delete;
  PressureTurn& operator=(const PressureTurn&) = delete;
  const bool mine;
};

struct PressureStatistics {
  uint64_t times;         // that memory has become short
  bool now;               // it is
  size_t limit;           // of the cgroup; 0: none is known
  size_t usage;           // of the cgroup, as last read
  uint64_t rounds;        // everything was given back early
  uint64_t purged_bytes;  // by that
  uint64_t ns;            // it took
  uint64_t waits;         // of threads that wanted memory, for who gave back
  uint64_t wait_ns;
};
PressureStatistics pressure_statistics();

}  // namespace seemalloc::heap

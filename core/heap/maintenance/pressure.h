// Pressure: finds that memory is getting short, by heap_soft_limit, the cgroup's limit or the
// kernel's reports, and makes the heap return cached memory early.
//
// The helper thread checks, more often the nearer the limit. Slow paths check each time the heap
// has grown by a part of the free space below the limit, so a burst is noticed in time. A check
// reads a few files if there is a limit, else none. Without a helper thread ticks check.
// Threads: any; one at a time checks, the others continue without a check. Code that returns memory
// requires that no lock is held.
#pragma once

#include <cstddef>
#include <cstdint>

namespace seemalloc::heap {

// Called by a slow path once pages::memory_account.pressure_check_is_due(). The caller is about to
// write to `upcoming_bytes` that have no memory yet.
void check_memory_pressure(size_t upcoming_bytes);

// Called by the helper thread. `stalled`: the kernel has reported that tasks wait for memory.
// Returns the latest time for the next call, in ns from now.
uint64_t check_pressure_by_helper(bool stalled);
// Does the periodic work of the helper thread if there is none. Called by ticks.
void check_pressure_by_tick();

// Called at load, before there are threads.
void pressure_options_read();
// Called when a limit was set, or the option `pressure` changed.
void pressure_options_changed();
// In a forked child: no thread is checking. The child may soon be moved to another cgroup.
void reset_pressure_in_child();

// Writes the path of a file of the process's memory cgroup (version 2) into `path`
// (os::MemoryGroup::kMaxPath bytes).
enum class GroupFile {
  kFound,
  kNone,
  kBusy,  // another thread is checking just now
};
GroupFile memory_group_file(const char* name, char* path);

// The right to check the pressure, if no other thread has it.
class PressureCheckLock {
 public:
  PressureCheckLock();
  ~PressureCheckLock();
  PressureCheckLock(const PressureCheckLock&) = delete;
  PressureCheckLock& operator=(const PressureCheckLock&) = delete;
  const bool mine;
};

struct PressureStatistics {
  uint64_t times;         // how often memory has become short
  bool now;               // memory is short now
  size_t limit;           // of the cgroup; 0: none is known
  size_t usage;           // of the cgroup, as last read
  uint64_t rounds;        // purges of everything under pressure
  uint64_t purged_bytes;  // bytes that they purged
  uint64_t ns;            // the time that they took
  uint64_t waits;         // waits of threads that allocate, for the thread that purges
  uint64_t wait_ns;
};
PressureStatistics pressure_statistics();

}  // namespace seemalloc::heap

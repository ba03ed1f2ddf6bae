// The CPU profiler: a timer per thread interrupts it at regular intervals of its CPU time, and the
// SIGPROF handler records its stack.
//
// Two implementations: profiled, and minimal (the library without a profiler, where no profile can
// be started). Threads: any, but not in signal handlers. One profile at a time; the samples of the
// last one are kept until the next one starts.
//
// A caller that starts a profile to write it to a file later (cpu_profile_runs.h; ProfilerStart,
// core/compat) keeps its number. Meanwhile other callers (the socket, the API, a signal) may end
// that profile and start another. So:
// 1. A number belongs to one profile. A caller that passes it never ends or gets another profile.
// 2. Ending a profile and getting its samples is one step (collect_cpu_profile): no other profile
//    starts in between and replaces it.
// 3. Files are written while no lock of this file is held. Their writers take turns with locks of
//    their own, which are taken first.
#pragma once

#include <cstdint>

#include "core/api/malloc/services.h"
#include "core/api/sampling/sampling.h"

namespace seemalloc {

namespace profile {
struct ExternalStacks;
}

enum class CpuStartResult {
  kStarted,
  kUnavailable,  // this is the library without a profiler
  kRunning,      // a profile is running already
  kSignalInUse,  // the program handles SIGPROF
  kTimerInUse,   // the program has set ITIMER_PROF
  kNoMemory,
  kNoTimers,  // the kernel refuses timers
};

struct CpuRequest {
  unsigned frequency;  // interrupts per second of each thread's time, 1 … kMaxCpuFrequency
  bool wall = false;   // elapsed time instead of the thread's CPU time
  // Ends automatically after this time; 0: runs until it is stopped.
  uint64_t max_duration_ns = 0;
  // The total CPU time includes the time before the start, which is not sampled.
  bool whole_run = false;
};
constexpr unsigned kMaxCpuFrequency = 4000;

// The request according to the options cpu_frequency and cpu_clock.
CpuRequest requested_cpu_profile();

// On success sets *number, which is at least 1.
CpuStartResult start_cpu_profile(const CpuRequest& request, uint64_t* number = nullptr);
// A description of the result for error messages and warnings.
const char* describe(CpuStartResult result);
// Ends the running profile, whichever caller has started it. False if none was running.
bool stop_cpu_profile();
struct CollectedCpuProfile {
  ProfileBytes profile;
  uint64_t interrupts, evictions;
};
enum class CpuCollectResult {
  kCollected,
  kReplaced,  // another one has started since: its samples are lost
  kNoMemory,
};
// Gets the samples so far of the profile with this number; ends it first if `end` is set and it is
// still running.
CpuCollectResult collect_cpu_profile(uint64_t number, bool end, CollectedCpuProfile* out);
// The samples so far, or those of the last profile; empty if there was none. Writes the profile of
// the kind `cpu` (profile_kinds.h).
bool cpu_profile(ProfileBytes* out);

struct CpuReport {
  bool available, running;
  uint64_t interrupts, evictions;
};
CpuReport cpu_report();

// The stacks of the profile, so that those with frames in an unloaded module can be rewritten. They
// do not change until they are unlocked. Null: there are none, or the lock was not available soon
// enough; then there is nothing to unlock.
const profile::ExternalStacks* lock_cpu_stacks();
void unlock_cpu_stacks();

// Called by the helper thread: looks for new and ended threads, adds the samples in the ring
// (core/profile/cpu/cpu_store.h) to the profile, and ends a profile whose time is over. Returns the
// time until the next call, in ns; UINT64_MAX while no profile is running.
uint64_t tick_cpu_profiler();

// Called in the child of fork: it has no timers, and the running profile belongs to the parent.
// Returns true if one was running.
bool reset_cpu_profile_in_child();

}  // namespace seemalloc

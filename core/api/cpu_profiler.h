// The CPU profiler: a timer per thread interrupts it every so often in its CPU time, and the handler of SIGPROF notes its stack.
//
// Two implementations: profiled, and minimal (the library without a profiler, where nothing can be started).
// Threads: any, but in no signal handler. One profile at a time; what the last one saw is kept until the next begins.
//
// Who starts a profile to write it to a file later (cpu_runs.h; ProfilerStart, core/compat) keeps its number. Others may end that profile
// meanwhile and begin another: by the socket, the API, a signal. So:
// 1. A number is of one profile. With it nobody ends or gets another one.
// 2. Ending a profile and getting what it saw is one step (take_cpu_profile): no other begins in between and takes its place.
// 3. Files are written with no lock of this file's. Their writers take turns by locks of their own, which are taken first.
#pragma once

#include <cstdint>

#include "core/api/sampling.h"

namespace seemalloc {

namespace profile {
struct OtherStacks;
}

enum class CpuStart {
  kStarted,
  kUnavailable,  // this is the library without a profiler
  kRunning,      // one is running already
  kSignalInUse,  // the program handles SIGPROF
  kTimerInUse,   // the program has set ITIMER_PROF
  kNoMemory,
  kNoTimers,     // the kernel refuses timers
};

struct CpuRequest {
  unsigned frequency;        // interrupts in a second of each thread's time, 1 … kMaxCpuFrequency
  bool wall = false;         // of the time that passes instead of the time that the thread runs
  uint64_t most_ns = 0;      // ends by itself after so long; 0: when it is stopped
  bool whole_run = false;    // what the process has used before counts as used, and not seen
};
constexpr unsigned kMaxCpuFrequency = 4000;

// What the options say: cpu_frequency, cpu_clock.
CpuRequest requested_cpu_profile();

// Fills in the number, at least 1, when it has started.
CpuStart start_cpu_profile(const CpuRequest& request, uint64_t* number = nullptr);
// In words, for errors and warnings.
const char* text_of(CpuStart result);
// Ends the one that runs, whoever has started it. False when none was running.
bool stop_cpu_profile();
struct CpuTaken {
  ProfileBytes profile;
  uint64_t interrupts, evictions;
};
enum class CpuTake {
  kTaken,
  kReplaced,  // another one has begun since: it is lost
  kNoMemory,
};
// What the profile of this number has seen so far; ends it first when `end` is set and it still runs.
CpuTake take_cpu_profile(uint64_t number, bool end, CpuTaken* out);
// What was seen so far, or by the last one; empty before the first. A kind of profile (profile_kinds.h).
bool cpu_profile(ProfileBytes* out);

struct CpuReport {
  bool available, running;
  uint64_t interrupts, evictions;
};
CpuReport cpu_report();

// The calling thread has got its heap; it is about to end.
void cpu_profiler_meets_thread();
void cpu_profiler_loses_thread();

// The stacks of the profile, to be moved where they go through a module that is gone: nothing changes them until they are unlocked. Null:
// there are none, or they cannot be had soon, and nothing is to be unlocked.
const profile::OtherStacks* lock_cpu_stacks();
void unlock_cpu_stacks();

// The helper's part: looks for threads that came and went, empties the ring, ends what is due. Returns when it wants to be
// called again, at the latest, in ns; UINT64_MAX while nothing is profiled.
uint64_t tick_cpu_profiler();

// The child of fork has no timers, and the profile is the parent's. True when one was running.
bool forget_cpu_profile_in_child();

}  // namespace seemalloc

// The CPU profiler: a timer per thread interrupts it every so often in its CPU time, and the handler of SIGPROF notes its stack.
//
// Two implementations: profiled, and minimal (the library without a profiler, where nothing can be started).
// Threads: any, but in no signal handler. One profile at a time; what the last one saw is kept until the next begins.
#pragma once

#include <cstdint>

#include "core/api/sampling.h"

namespace seemalloc {

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
};
constexpr unsigned kMaxCpuFrequency = 4000;

// What the options say: cpu_frequency, cpu_clock.
CpuRequest requested_cpu_profile();

CpuStart start_cpu_profile(const CpuRequest& request);
// In words, for errors and warnings.
const char* text_of(CpuStart result);
// False when none was running.
bool stop_cpu_profile();
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

// The helper's part: looks for threads that came and went, empties the ring, ends what is due. Returns when it wants to be
// called again, at the latest, in ns; UINT64_MAX while nothing is profiled.
uint64_t tick_cpu_profiler();

// The child of fork has no timers, and nothing to write.
void forget_cpu_profile_in_child();

}  // namespace seemalloc

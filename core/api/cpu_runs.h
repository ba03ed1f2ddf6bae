// CPU profiles that options and variables ask for: of a whole run, or from one signal to the next; and their files.
//
// SEEMALLOC_CONF: cpu_profile, cpu_signal. gperftools' variables: CPUPROFILE, CPUPROFILESIGNAL, CPUPROFILE_FREQUENCY and
// CPUPROFILE_REALTIME, with its names for the files of children and its last line on stderr.
//
// A child of fork goes on with the profile of a whole run, as gperftools documents it: in a file of its own, with its process id behind
// the name. Not at once: a child that is about to execute something else may first give SIGPROF its default action back, which ends
// the process. One that a signal has begun is of the process that got the signal.
//
// Threads: any; beginning, ending and writing take turns.
#pragma once

#include <cstdint>

#include "core/base/text.h"

namespace seemalloc {

// At load, with the options read. True when the helper is needed for it.
bool start_cpu_run();
// The helper's: what the signal asked for since the last time.
void follow_cpu_signal();
// At exit: writes what is still running; waits, up to 3 s, for what the helper is writing.
void end_cpu_run();
// gperftools' ProfilerStop and ProfilerFlush: ends it, or only writes what it has seen so far. False when none is running.
bool stop_cpu_run();
bool flush_cpu_run();
bool cpu_run_is_running();
// Appends the name of its file (or the pattern for it), and says when it began (CLOCK_REALTIME). False when none is running.
bool cpu_run_name(Text& name, uint64_t* wall_ns);
// The signal that toggles; 0: none.
int cpu_signal();

// In the child of fork; `profiled`: a CPU profile was running.
void forget_cpu_run_in_child(bool profiled);
// It is time that the child begins its own, or has a helper that follows the signal. A load where there is nothing to do.
bool cpu_run_in_child_is_due();
// Begins it. Requires: no lock of ours is held, or may_lock() says so.
void begin_cpu_run_in_child();

}  // namespace seemalloc

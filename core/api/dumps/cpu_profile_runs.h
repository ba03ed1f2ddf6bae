// CPU profiles requested by options and variables: of a whole run, or from one signal to the next;
// and their files.
//
// SEEMALLOC_CONF: cpu_profile, cpu_signal. gperftools' variables: CPUPROFILE, CPUPROFILESIGNAL,
// CPUPROFILE_FREQUENCY and CPUPROFILE_REALTIME, with its names for the files of children and its
// last line on stderr.
//
// A child of fork continues the profile of a whole run, as gperftools documents it: in a file of
// its own, with its process id at the end of the name. Not at once: a child that is about to call
// exec may first reset SIGPROF to its default action, which ends the process. A profile started by
// a signal belongs to the process that got the signal.
//
// Threads: any; starting, ending and writing take turns.
#pragma once

#include <cstdint>

#include "core/base/text.h"

namespace seemalloc {

// Called at load, with the options read. True when the helper thread is needed for it.
bool start_cpu_run();
// Called by the helper thread: executes the change that the signal has requested since the last
// call.
void handle_cpu_signal();
// Called at exit: writes a running profile; waits, up to 3 s, for a file that the helper thread is
// writing.
void end_cpu_run();
// For gperftools' ProfilerStop and ProfilerFlush: ends the profile, or only writes its samples so
// far. False when none is running.
bool stop_cpu_run();
bool flush_cpu_run();
bool cpu_run_is_running();
// Appends the name of its file (or the pattern for it), and stores its start time (CLOCK_REALTIME).
// False when none is running.
bool cpu_run_name(Text& name, uint64_t* wall_ns);
// The signal that toggles; 0: none.
int cpu_signal();

// In the child of fork; `profiled`: a CPU profile was running.
void reset_cpu_run_in_child(bool profiled);
// True when it is time for the child to start its own profile, or to get a helper thread that
// handles the signal. Costs one load if there is nothing to do.
bool cpu_run_in_child_is_due();
// Starts it. Requires: none of our locks is held, or may_lock() returns true.
void restart_cpu_profile_in_child();

}  // namespace seemalloc

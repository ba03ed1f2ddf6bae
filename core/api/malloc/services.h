// Functions that slow paths and the process's life call, and that the folders above define: dumps,
// cpu, helper.
//
// This folder includes none of them; the linker connects the two, as it does for sampling.h. There
// is no table of pointers that the folders above fill in: malloc runs before the first constructor
// of the library, the linker takes only those members of a static library to which another member
// refers, and tests/abi follows direct calls to find the depth of the stack.
#pragma once

#include "core/base/text.h"

namespace seemalloc {

// ---- the helper thread (helper/helper.cc) ----

// Starts the helper thread if the heap has grown enough and it is not running. Cheap when there is
// nothing to do.
void start_helper_if_due();
// Starts it for pending work, regardless of the heap's size. Requires: none of our locks is held.
void start_helper_for_work();
// Whether the helper thread is running, so that work can be left to it.
bool helper_is_running();
// Makes the helper thread check for work now. Any thread; async-signal-safe.
void wake_helper();
// Called at load, last: starts it at once if the options require it.
void start_helper_at_load();
// Called at exit: removes the socket and, if locks can be taken, writes the exit profile.
void stop_helper_at_exit();
// Called in the child of fork, which has no helper thread: its next slow path may start one.
void reset_helper_in_child();
// Called at load (helper/filter_calls.cc). Until then, and in a static program, calls that install
// filters go to the kernel directly.
void find_next_filter_calls();

// ---- the CPU profiler (cpu) ----

// Called when the calling thread has got its heap, and when it is about to end.
void cpu_profiler_thread_started();
void cpu_profiler_thread_exiting();

// ---- dumps (dumps/auto_dump.cc) ----

// Called once the options have been read.
void dump_options_read();
// Called when an allocation has failed, before the program learns of it: writes at once, since the
// thread may be about to give up.
void dump_after_failure();
// Called before the process aborts at heap_limit: writes a profile and appends its name, or the
// error, to the line.
void dump_at_limit(Text& line);
// In the child of fork no thread writes, and the files belong to the parent.
void reset_dumps_in_child();

}  // namespace seemalloc

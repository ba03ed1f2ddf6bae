// The helper thread: serves the control socket and gives free memory back while the program is idle.
//
// Started lazily, once the heap is worth it, from a slow path that holds no lock of ours; signals blocked, small stack.
// Without it (option off, refused) slow paths purge and there is no socket. After fork the child starts its own.
#pragma once

#include <cstdint>

namespace seemalloc {

// Starts the helper when the heap has grown enough and it does not run. Cheap when there is nothing to do.
void start_helper_if_due();
// Starts it whatever the heap's size: there is work for it. Requires: no lock of ours is held.
void start_helper_for_work();
// At load: starts it at once when the option says so.
void start_helper_at_load();
// At exit: removes the socket, writes the exit profile, if locks can be had.
void stop_helper_at_exit();

// There is a helper: what is left to it will be done.
bool helper_runs();
// Has it look at what is to be done. Any thread, signal handlers too.
void wake_helper();

// Before a filter for all threads is installed: the helper ends, if it runs, and no other starts. After the kernel has refused the filter:
// a helper may start again.
void end_helper_before_filter();
void filter_did_not_come();
// Before a call that wants the process to have one thread (os::wants_one_thread): ends the helper if it and the calling thread are all
// there are. True when it did: helper_comes_back() then starts another, which has the calling thread's credentials and namespaces.
bool helper_steps_aside();
void helper_comes_back();

// Since the library was loaded.
uint64_t helper_uptime_ns();

// In the child of fork there is no helper: the next slow path may start one.
void forget_helper_in_child();

}  // namespace seemalloc

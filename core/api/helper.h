// The helper thread: serves the control socket and gives free memory back while the program is idle.
//
// Started lazily, once the heap is worth it, from a slow path that holds no lock of ours. The C library does not know this thread: what it runs
// keeps the rules of core/os/bare_thread.h.
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

// For signals that ask the helper for something. False when the signal is in use or cannot be caught.
bool take_asking_signal(int signal, void (*handler)(int));
// In the helper: takes one that is pending for the process since all threads have blocked it, if its handler is still that one.
bool takes_blocked_signal(int signal, void (*handler)(int));

// Before a filter for all threads is installed: the helper ends, if it runs, and no other starts. After the kernel has refused the filter:
// a helper may start again.
void end_helper_before_filter();
void filter_did_not_come();
// The helper and the calling thread are all that the process has.
bool helper_is_only_other_thread();
// Before a call that wants the process to have one thread, or changes credentials that the helper would keep: the helper ends, if it runs, and none
// starts until helper_comes_back(), which has to follow where this is true. That starts another if one has ended, with the calling thread's credentials
// and namespaces; not before `pause_ns` have passed, and later if that happens all the time.
bool helper_steps_aside();
void helper_comes_back(uint64_t pause_ns = 0);

// Since the library was loaded.
uint64_t helper_uptime_ns();

// In the child of fork there is no helper: the next slow path may start one.
void forget_helper_in_child();

}  // namespace seemalloc

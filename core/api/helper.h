// The helper thread: serves the control socket and returns free memory while the program is idle.
//
// Started lazily, once the heap is worth it, from a slow path that holds no lock of ours. The C library does not know
// this thread: what it runs keeps the rules of core/os/bare_thread.h.
// Without it (option off, refused) slow paths purge and there is no socket. After fork the child starts its own.
#pragma once

#include <cstdint>

namespace seemalloc {

// Starts the helper when the heap has grown enough and it is not running. Cheap when there is nothing to do.
void start_helper_if_due();
// Starts it for pending work, whatever the heap's size. Requires: no lock of ours is held.
void start_helper_for_work();
// Called at load: starts it at once if the options require it.
void start_helper_at_load();
// Called at exit: removes the socket and, if locks can be taken, writes the exit profile.
void stop_helper_at_exit();

// Whether the helper is running, so that work can be left to it.
bool helper_runs();
// Makes the helper check for work now. Any thread; async-signal-safe.
void wake_helper();

// For signals that ask the helper for something. False when the signal is in use or cannot be caught.
bool take_asking_signal(int signal, void (*handler)(int));
// In the helper: takes one that is pending for the process since all threads have blocked it, if its handler is still
// that one.
bool takes_blocked_signal(int signal, void (*handler)(int));

// Before a filter for all threads is installed: the helper ends, if it runs, and no other starts. After the kernel has
// refused the filter: a helper may start again.
void end_helper_before_filter();
void filter_did_not_come();
// The helper and the calling thread are all that the process has.
bool helper_is_only_other_thread();
// Before a call that wants the process to have one thread, or changes credentials that the helper would keep: the
// helper ends, if it runs, and none starts until helper_comes_back(), which has to follow where this is true. That
// starts another if one has ended, with the calling thread's credentials and namespaces; not before `pause_ns` have
// passed, and later if that happens all the time.
bool helper_steps_aside();
void helper_comes_back(uint64_t pause_ns = 0);

// Time since the library was loaded, or since the fork.
uint64_t helper_uptime_ns();

// The child of fork has no helper: the next slow path may start one.
void forget_helper_in_child();

}  // namespace seemalloc

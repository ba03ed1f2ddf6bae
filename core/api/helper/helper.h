// The helper thread: serves the control socket and returns free memory while the program is idle.
//
// Started when the heap has grown, from a slow path that holds none of our locks. The C library does not know of this
// thread: the code that it runs keeps the rules of core/os/bare_thread.h.
// Without it (option `helper` off, or thread refused) slow paths purge, and there is no socket. After fork the child
// starts its own.
#pragma once

#include <cstdint>

namespace seemalloc {

// Starts the helper thread if the heap has grown enough and it is not running. Cheap when there is nothing to do.
void start_helper_if_due();
// Starts it for pending work, regardless of the heap's size. Requires: none of our locks is held.
void start_helper_for_work();
// Called at load: starts it at once if the options require it.
void start_helper_at_load();
// Called at exit: removes the socket and, if locks can be taken, writes the exit profile.
void stop_helper_at_exit();

// Whether the helper thread is running, so that work can be left to it.
bool helper_runs();
// Makes the helper thread check for work now. Any thread; async-signal-safe.
void wake_helper();

// Installs the handler of a signal that requests work from the helper thread. Returns false if the program uses the
// signal, or if it cannot be caught.
bool take_asking_signal(int signal, void (*handler)(int));
// Called by the helper thread: consumes such a signal that is pending for the process, because all threads have blocked
// it. Returns false if none is pending, or if it has another handler by now.
bool takes_blocked_signal(int signal, void (*handler)(int));

// end_helper_before_filter: called before a seccomp filter for all threads is installed. The helper thread ends, and no
// other starts. filter_did_not_come: called after the kernel has refused the filter. A helper thread may start again.
void end_helper_before_filter();
void filter_did_not_come();
// Whether the helper thread and the calling thread are the only threads of the process.
bool helper_is_only_other_thread();
// helper_steps_aside: called before a call that requires the process to have one thread, or that changes credentials
// that the helper thread would keep. The helper thread ends, and none starts until helper_comes_back(), which must
// follow if this returns true. helper_comes_back starts a helper thread if one has ended; it has the credentials and
// namespaces of the calling thread. It starts after `pause_ns` at the earliest, and later if such calls are very
// frequent.
bool helper_steps_aside();
void helper_comes_back(uint64_t pause_ns = 0);

// Time since the library was loaded, or since the fork.
uint64_t helper_uptime_ns();

// Called in the child of fork, which has no helper thread: its next slow path may start one.
void forget_helper_in_child();

}  // namespace seemalloc

// The threads of this process, their names, and timers that interrupt one of them: the kernel
// interface of the CPU profiler.
//
// No function here touches errno, allocates or locks. Threads: all functions may be called from any
// thread.
#pragma once

#include <cstddef>
#include <cstdint>

namespace seemalloc::os {

// Calls visit(context, id) for each thread of this process. Returns false when /proc cannot be
// read.
bool for_each_thread(void (*visit)(void* context, int thread), void* context);

// Including the terminating zero.
inline constexpr size_t kThreadNameBytes = 16;
// Reads the name of a thread of this process, as pthread_setname_np and prctl set it; "" when it
// has none. Returns false, and writes nothing, when there is no such thread or /proc cannot be
// read.
bool read_thread_name(int thread, char (&name)[kThreadNameBytes]);
// The name of the calling thread: one system call. Under a seccomp filter use read_thread_name():
// the filter may end the process for prctl.
bool own_thread_name(char (&name)[kThreadNameBytes]);
// Whether this process has such a thread. A thread that has just ended may still be found.
bool is_thread(int thread);
// The number of threads of this process; 0 when /proc cannot be read. A thread that has just ended
// may still be counted.
unsigned thread_count();

enum class ThreadClock { kCpu, kWall };  // CPU time of the thread; elapsed time

// Creates a timer, not yet set, that sends `signal` to a thread of this process, with `value` as
// si_value.sival_ptr. Returns its id, at least 0, or -errno (-EAGAIN: RLIMIT_SIGPENDING counts
// timers too; -EINVAL: the thread has ended).
int make_thread_timer(int thread, ThreadClock clock, int signal, void* value);
// Makes the timer expire after `first_ns` and then every `period_ns`. Requires: both > 0.
bool set_timer(int timer, uint64_t first_ns, uint64_t period_ns);
// Whether it will expire again. False once its thread has ended.
bool is_timer_set(int timer);
void delete_timer(int timer);

// Whether the program itself has a timer that sends SIGPROF: setitimer(ITIMER_PROF).
bool has_profiling_timer();

}  // namespace seemalloc::os

// The threads of this process, their names, and timers that interrupt one of them: what a CPU profiler asks of the kernel.
//
// Nothing here touches errno, allocates or locks. Threads: all functions may be called from any thread.
#pragma once

#include <cstddef>
#include <cstdint>

namespace seemalloc::os {

// visit(context, id) for each thread of this process. False when /proc does not tell.
bool for_each_thread(void (*visit)(void* context, int thread), void* context);

// With the zero at its end.
inline constexpr size_t kThreadNameBytes = 16;
// The name of a thread of this process, "" where it has none: as pthread_setname_np and prctl set it. False, and nothing is written, when
// there is no such thread, or /proc does not tell.
bool read_thread_name(int thread, char (&name)[kThreadNameBytes]);
// That of the calling thread: one system call. Where a filter decides about them it is read like the others': prctl may be the end.
bool own_thread_name(char (&name)[kThreadNameBytes]);
// Whether this process has such a thread. One that has ended may be seen for a moment.
bool is_thread(int thread);
// How many threads this process has; 0 when /proc does not tell. One that has ended may be counted for a moment.
unsigned thread_count();

enum class ThreadClock { kCpu, kWall };  // the time that the thread runs; the time that passes

// Makes a timer, not yet set, that sends `signal` to a thread of this process, with `value` as its si_value.sival_ptr. Its
// id, at least 0, or -errno (-EAGAIN: RLIMIT_SIGPENDING counts timers too; -EINVAL: the thread has ended).
int make_thread_timer(int thread, ThreadClock clock, int signal, void* value);
// Has it go off after `first_ns` and then every `period_ns`. Requires: both > 0.
bool set_timer(int timer, uint64_t first_ns, uint64_t period_ns);
// Whether it will go off again. Not once its thread has ended.
bool is_timer_set(int timer);
void delete_timer(int timer);

// Whether a timer of the program's own sends SIGPROF: setitimer(ITIMER_PROF).
bool has_profiling_timer();

}  // namespace seemalloc::os

// The trace: each system call that the allocator makes (os/kernel/calls.h), with its stack, for
// `seemalloc trace`.
//
// While off, it costs one load per call. While on, the thread that made the call captures its stack
// and puts the event into a ring; it takes no lock, allocates nothing and never waits: an event
// that does not fit is dropped and counted. Calls made to answer the tool (Reason::kReport) are not
// traced. Readers have their own positions; one that has not read for some seconds is removed, and
// with the last of them tracing ends. Off in a forked child.
// Threads: the helper thread only, except for the recording itself, and reset_trace_in_child().
#pragma once

#include "core/base/text.h"

namespace seemalloc {

enum class TraceStart { kStarted, kNoMemory, kTooManyReaders };
// Adds a reader, starting at the current event; *reader identifies it.
TraceStart start_trace(unsigned* reader);
// Appends the events that the reader has not seen, oldest first, one a line: time, call, reason,
// bytes, ns, thread, bytes of the size class or -, 1 when refused, frames in hex with commas or -.
// Then a line "lost N dropped N more 0|1". `lost` events were overwritten before this reader read
// them, `dropped` ones were never written, both since it began; more: read again at once. False:
// there is no such reader (any more).
bool read_trace(unsigned reader, Text& out);
// The buffer size that read_trace() needs.
inline constexpr size_t kTraceTextBytes = 512 * 1024;
bool stop_trace(unsigned reader);
// Removes expired readers and ends tracing without readers. Cheap; called regularly with the
// (monotonic) time.
void tick_trace(uint64_t now_ns);
void reset_trace_in_child();

}  // namespace seemalloc

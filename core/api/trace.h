// The trace: each call into the kernel that the allocator makes (os/calls.h), with its stack, for `seemalloc trace`.
//
// Off, it costs one load per such call. On, the thread that made the call finds its stack and puts the event into a ring;
// it takes no lock, makes no memory and never waits: what has no room is dropped and counted. What answering the tool
// itself costs (Reason::kReport) is not traced. Readers have places of their own; one that has not read for some seconds
// is gone, and with the last of them tracing ends. Off in a forked child.
// Threads: the helper alone, but for the recording itself, and forget_trace_in_child().
#pragma once

#include "core/base/text.h"

namespace seemalloc {

enum class TraceStart { kStarted, kNoMemory, kTooManyReaders };
// Adds a reader, from now on; *reader names it.
TraceStart start_trace(unsigned* reader);
// Appends the events that the reader has not seen, oldest first, one a line: time, call, reason, bytes, ns, thread, bytes of
// the size class or -, 1 when refused, frames in hex with commas or -. Then a line "lost N dropped N more 0|1".
// `lost` were overwritten before this reader came, `dropped` never written, both since it began; more: read again at once.
// False: there is no such reader (any more).
bool read_trace(unsigned reader, Text& out);
// So much room read_trace needs.
inline constexpr size_t kTraceTextBytes = 512 * 1024;
bool stop_trace(unsigned reader);
// Ends what nobody reads any more. Cheap; called once in a while with the (monotonic) time.
void tick_trace(uint64_t now_ns);
void forget_trace_in_child();

}  // namespace seemalloc

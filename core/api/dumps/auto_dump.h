// Automatic heap profiles: written after a number of allocated bytes, of bytes of growth or of
// seconds, when an allocation fails, or on a signal.
//
// Checked where samples are recorded, and by the helper thread; the other paths of malloc and free
// are not involved. A thread that finds a dump due requests it; the helper thread is woken and
// writes it, or the thread itself if there is no helper. Requests that arrive before the dump is
// written are answered by one dump, so that a slow disk does not get more than it can take.
// Threads: any; request_dump() also from signal handlers. One thread writes at a time; no other
// thread waits for it, except the one that ends the process. No lock is held while a profile is
// written.
#pragma once

#include <cstdint>

#include "core/api/dumps/dump_rules.h"
#include "core/api/malloc/services.h"
#include "core/base/options.h"

namespace seemalloc {

// Whether the helper thread is needed from the start.
bool dumps_need_helper();

// Requests a dump for this reason. Async-signal-safe.
void request_dump(DumpReason reason);
// Called by the helper thread: checks the clock and the heap, and writes requested dumps.
void check_timed_dumps();
// The time until check_timed_dumps() must be called next, in ns.
uint64_t next_dump_tick_in_ns();
// True while a requested dump is not yet written and counted. Threads: any.
bool dump_is_pending();

// Called when the process ends: writes requested dumps, waits for a dump in progress, and lets no
// other begin.
void finish_dumps_at_exit();
}  // namespace seemalloc

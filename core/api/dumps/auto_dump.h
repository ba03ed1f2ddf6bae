// Automatic heap profiles: written after a number of allocated bytes, of bytes of growth or of seconds, when an
// allocation fails, or on a signal.
//
// Checked where samples are recorded, and by the helper thread; the other paths of malloc and free are not involved. A
// thread that finds a dump due requests it; the helper thread is woken and writes it, or the thread itself if there is
// no helper. Requests that arrive before the dump is written are answered by one dump, so that a slow disk does not get
// more than it can take.
// Threads: any; ask_for_dump() also from signal handlers. One thread writes at a time; no other thread waits for it,
// except the one that ends the process. No lock is held while a profile is written.
#pragma once

#include <atomic>
#include <cstdint>

#include "core/api/dumps/dump_rules.h"
#include "core/base/compiler.h"
#include "core/base/options.h"

namespace seemalloc {

// Called once the options have been read, and when one of them has been set.
void dump_options_read();
void dump_option_changed(options::Id id);
// Whether the helper thread is needed from the start.
bool dumps_want_helper();

// False in a signal handler that has interrupted one of our critical sections, or between fork's handlers: taking a
// profile needs the locks.
bool may_lock();

// True while a dump may become due.
extern std::atomic<bool> dumps_armed SEEMALLOC_HIDDEN;
// Called for a recorded sample, which stands for `bytes` allocated bytes (0: a block has been resized). Requests due
// dumps, and writes them if there is no helper thread.
void look_for_dump(uint64_t bytes);

// Requests a dump for this reason. Async-signal-safe.
void ask_for_dump(DumpReason reason);
// Called by the helper thread: checks the clock and the heap, and writes requested dumps.
void tick_dumps();
// The time until tick_dumps() must be called next, in ns.
uint64_t next_dump_tick_in_ns();
// True while a requested dump is not yet written and counted. Threads: any.
bool dump_is_pending();

// Called when an allocation has failed, before the program learns of it: writes at once, since the thread may be about
// to give up.
void dump_after_failure();
// Called when the process ends: writes requested dumps, waits for a dump in progress, and lets no other begin.
void finish_dumps();
// In the child of fork no thread writes, and the files belong to the parent.
void forget_dumps_in_child();

}  // namespace seemalloc

// Heap profiles that are written by themselves: every so many bytes allocated, of growth or seconds, when an allocation fails, on a
// signal.
//
// Looked for where samples are recorded and by the helper: what malloc and free do otherwise does not know of it. Who finds
// one due asks for it; the helper writes it, woken up, or, where there is none, the thread itself. What is asked for several times
// before it is written is written once, so that a slow disk is not given more than it can take.
// Threads: any; ask_for_dump() also from signal handlers. One writes at a time; nobody waits for another's writing, but the thread
// that ends the process. No lock is held while a profile is written.
#pragma once

#include <atomic>
#include <cstdint>

#include "core/api/dump_rules.h"
#include "core/base/compiler.h"
#include "core/base/options.h"

namespace seemalloc {

// Once the options have been read; and when one of them has been set.
void dump_options_read();
void dump_option_changed(options::Id id);
// Whether the helper is wanted from the start.
bool dumps_want_helper();

// False in a signal handler that has interrupted one of our critical sections, or between fork's handlers: a profile needs the locks.
bool may_lock();

// Something may become due.
extern std::atomic<bool> dumps_armed SEEMALLOC_HIDDEN;
// A recorded sample stands for so many allocated bytes (0: a block has been resized). Asks, and without a helper writes.
void look_for_dump(uint64_t bytes);

// For a dump of this reason, by whoever can write it.
void ask_for_dump(DumpReason reason);
// The helper's: looks at the clock and the heap, and writes what was asked for.
void tick_dumps();
// When to call that at the latest, in ns.
uint64_t next_dump_tick_in_ns();
// Something has been asked for and is not yet written and counted. Threads: any.
bool dump_is_pending();

// An allocation has failed, and the program will be told so: written at once, since the thread may be about to give up.
void dump_after_failure();
// The process ends: writes what was asked for, waits for a dump that is being written, and lets no other begin.
void finish_dumps();
// In the child of fork nobody writes, and the files are the parent's.
void forget_dumps_in_child();

}  // namespace seemalloc

// CHECK (always on), DCHECK (debug, fuzz and sanitizer builds), and the only functions that end the
// process.
//
// fatal() writes one line, `seemalloc: <kind> 0x<address>`, to stderr and aborts. Its text is
// stable, since users search for it.
#pragma once

#include "core/base/compiler.h"

namespace seemalloc {

// Ends the process after misuse by the program (double free, invalid free) or broken metadata.
// Threads: any; takes no lock.
[[noreturn]] SEEMALLOC_COLD void fatal(const char* kind, const void* address);

// The same with one line of text, `seemalloc: <text>`.
[[noreturn]] SEEMALLOC_COLD void fatal_text(const char* text);

// Called before the process is aborted. The program's SIGABRT handler may allocate, and the failing
// thread may hold locks.
extern void (*before_abort)();

// Ends the process after a failed CHECK.
[[noreturn]] SEEMALLOC_COLD void check_failed(const char* condition, const char* file, int line);

// Writes the line `seemalloc: <text>` to stderr, never to stdout. Threads: any.
SEEMALLOC_COLD void warn(const char* text);

}  // namespace seemalloc

#define CHECK(condition)                 \
  (SEEMALLOC_LIKELY(condition) ? (void)0 \
                               : ::seemalloc::check_failed(#condition, __FILE__, __LINE__))

#ifdef SEEMALLOC_DEBUG
#define DCHECK(condition) CHECK(condition)
#else
#define DCHECK(condition) ((void)sizeof(!(condition)))
#endif

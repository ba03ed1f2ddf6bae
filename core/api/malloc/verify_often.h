// The debug library's walks over all structures (heap/reports/verify.h), after every N slow-path
// operations of the process.
//
// The environment variable SEEMALLOC_VERIFY_EVERY is N: 4096 if it is not set, 0 for
// never. A broken invariant ends the process with its text. In all other builds this is nothing.
// Callers: slow paths of malloc and free, first thing, so without a lock. A program whose signal
// handlers allocate needs 0: a handler may interrupt a change without a lock.
#pragma once

namespace seemalloc {

#ifdef SEEMALLOC_VERIFY
void verify_if_due() noexcept;
#else
inline void verify_if_due() noexcept {}
#endif

}  // namespace seemalloc

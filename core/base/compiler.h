// Compiler extensions: hints and linkage.
#pragma once

#define SEEMALLOC_EXPORT extern "C" __attribute__((visibility("default")))
#define SEEMALLOC_ALWAYS_INLINE inline __attribute__((always_inline))
#define SEEMALLOC_NOINLINE __attribute__((noinline))
#define SEEMALLOC_COLD __attribute__((noinline, cold))
// For functions that read memory which another thread may be writing, and validate the value before
// use.
#define SEEMALLOC_NO_TSAN __attribute__((no_sanitize("thread")))

// A variable internal to this library: it is addressed directly, not through the global offset
// table.
#define SEEMALLOC_HIDDEN __attribute__((visibility("hidden")))

#define SEEMALLOC_LIKELY(x) __builtin_expect(!!(x), 1)
#define SEEMALLOC_UNLIKELY(x) __builtin_expect(!!(x), 0)

// What we ask of the compiler beyond the language: hints and linkage.
#pragma once

#define SEEMALLOC_EXPORT extern "C" __attribute__((visibility("default")))
#define SEEMALLOC_ALWAYS_INLINE inline __attribute__((always_inline))
#define SEEMALLOC_NOINLINE __attribute__((noinline))
#define SEEMALLOC_COLD __attribute__((noinline, cold))
// Reads memory that another thread may be writing; the value is validated before use.
#define SEEMALLOC_NO_TSAN __attribute__((no_sanitize("thread")))

#define SEEMALLOC_LIKELY(x) __builtin_expect(!!(x), 1)
#define SEEMALLOC_UNLIKELY(x) __builtin_expect(!!(x), 0)

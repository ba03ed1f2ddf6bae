// Compiler extensions: hints and linkage.
#pragma once

#define SEEMALLOC_EXPORT extern "C" __attribute__((visibility("default")))
#define SEEMALLOC_ALWAYS_INLINE inline __attribute__((always_inline))
#define SEEMALLOC_NOINLINE __attribute__((noinline))
#define SEEMALLOC_COLD __attribute__((noinline, cold))
// For functions that read memory which another thread may be writing, and validate the value before use.
#define SEEMALLOC_NO_TSAN __attribute__((no_sanitize("thread")))

// A variable internal to this library: it is addressed directly, not through the global offset table.
#define SEEMALLOC_HIDDEN __attribute__((visibility("hidden")))

#define SEEMALLOC_LIKELY(x) __builtin_expect(!!(x), 1)
#define SEEMALLOC_UNLIKELY(x) __builtin_expect(!!(x), 0)

namespace seemalloc {

// Reads a word once, without ordering, that another thread may be writing. It is a plain read because compilers emit a
// separate instruction for every atomic (or volatile) read; ThreadSanitizer must see an atomic. For the fast paths, not
// for loops.
template <typename T>
SEEMALLOC_ALWAYS_INLINE T load_racing(const T& word) {
#ifdef __SANITIZE_THREAD__
  return __atomic_load_n(&word, __ATOMIC_ACQUIRE);
#else
  return word;
#endif
}

// Writes a word that another thread may be reading. It is a plain store without ordering, except under ThreadSanitizer.
template <typename T>
SEEMALLOC_ALWAYS_INLINE void store_racing(T& word, T value) {
#ifdef __SANITIZE_THREAD__
  __atomic_store_n(&word, value, __ATOMIC_RELEASE);
#else
  word = value;
#endif
}

// Prefetches a cache line for writing. Without this target's own instruction, the line would be fetched for reading
// only.
SEEMALLOC_ALWAYS_INLINE void prefetch_for_write(const void* p) {
#ifdef __x86_64__
  __asm__ volatile("prefetchw %0" : : "m"(*static_cast<const char*>(p)));
#else
  __builtin_prefetch(p, 1);
#endif
}

}  // namespace seemalloc

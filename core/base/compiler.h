// What we ask of the compiler beyond the language: hints and linkage.
#pragma once

#define SEEMALLOC_EXPORT extern "C" __attribute__((visibility("default")))
#define SEEMALLOC_ALWAYS_INLINE inline __attribute__((always_inline))
#define SEEMALLOC_NOINLINE __attribute__((noinline))
#define SEEMALLOC_COLD __attribute__((noinline, cold))
// Reads memory that another thread may be writing; the value is validated before use.
#define SEEMALLOC_NO_TSAN __attribute__((no_sanitize("thread")))

// A variable of this library: addressed directly, not through the table of what others may define.
#define SEEMALLOC_HIDDEN __attribute__((visibility("hidden")))

#define SEEMALLOC_LIKELY(x) __builtin_expect(!!(x), 1)
#define SEEMALLOC_UNLIKELY(x) __builtin_expect(!!(x), 0)

namespace seemalloc {

// Reads a word that another thread may be writing, once, in no order. A plain read, because compilers make an instruction
// of its own of every atomic (and volatile) one; the thread sanitizer must see an atomic. For the fast paths, not for loops.
template <typename T>
SEEMALLOC_ALWAYS_INLINE T load_racing(const T& word) {
#ifdef __SANITIZE_THREAD__
  return __atomic_load_n(&word, __ATOMIC_ACQUIRE);
#else
  return word;
#endif
}

// Writes a word that another thread may be reading: a plain store, before which nothing else need be seen, but by the thread
// sanitizer.
template <typename T>
SEEMALLOC_ALWAYS_INLINE void store_racing(T& word, T value) {
#ifdef __SANITIZE_THREAD__
  __atomic_store_n(&word, value, __ATOMIC_RELEASE);
#else
  word = value;
#endif
}

// Asks for a line that will be written; without this target's own instruction it would come for reading only.
SEEMALLOC_ALWAYS_INLINE void prefetch_for_write(const void* p) {
#ifdef __x86_64__
  __asm__ volatile("prefetchw %0" : : "m"(*static_cast<const char*>(p)));
#else
  __builtin_prefetch(p, 1);
#endif
}

}  // namespace seemalloc

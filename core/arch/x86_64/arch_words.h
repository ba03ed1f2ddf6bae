// Words in memory, on x86-64. The build selects this file: core/arch/README.md.
#pragma once

#include <cstdint>

#include "core/base/compiler.h"

namespace seemalloc {

// Reads a word once, without ordering, that another thread may be writing. It is a plain read
// because compilers emit a separate instruction for every atomic (or volatile) read. For the fast
// paths, not for loops.
template <typename T>
SEEMALLOC_ALWAYS_INLINE T racy_load(const T& word) {
  return word;
}

// Writes a word that another thread may be reading: a plain store without ordering.
template <typename T>
SEEMALLOC_ALWAYS_INLINE void racy_store(T& word, T value) {
  word = value;
}

// Decrements the word with a release store: after all earlier writes of this thread. No other
// thread writes it. Returns true at zero.
SEEMALLOC_ALWAYS_INLINE bool decrement_release(uint32_t& word) {
  // x86 keeps stores in order, so a plain `decl` in memory suffices. An atomic release store would
  // take a load, a decrement and a store.
  __asm__ volatile("" ::: "memory");
  return --word == 0;
}

// Decrements the word. Returns true if it was 0.
SEEMALLOC_ALWAYS_INLINE bool decrement_below_zero(uint32_t& word) {
  bool ended;  // decremented in memory: otherwise the compiler would save registers for it
  __asm__ volatile("subl $1, %0" : "+m"(word), "=@ccc"(ended));
  return ended;
}

// Prefetches a cache line for writing. For baseline x86-64, __builtin_prefetch(p, 1) becomes
// prefetcht0, which fetches the line for reading only.
SEEMALLOC_ALWAYS_INLINE void prefetch_for_write(const void* p) {
  __asm__ volatile("prefetchw %0" : : "m"(*static_cast<const char*>(p)));
}

}  // namespace seemalloc

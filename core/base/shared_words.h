// Accesses to words of plain types that threads share. Protocols use these functions, and those of
// arch_words.h, because a model test has overloads of them for its own words
// (model_machine_for_test.h): so it runs the shipped code.
#pragma once

#include "core/base/compiler.h"

namespace seemalloc {

// Reads a word that no other thread can be writing: the caller is its only writer, or holds the
// lock under which it is written. A plain read, so ThreadSanitizer reports a violation.
template <typename T>
SEEMALLOC_ALWAYS_INLINE T load_own(const T& word) {
  return word;
}
template <typename T>
SEEMALLOC_ALWAYS_INLINE T load_relaxed(const T& word) {
  return __atomic_load_n(&word, __ATOMIC_RELAXED);
}
template <typename T>
SEEMALLOC_ALWAYS_INLINE T load_acquire(const T& word) {
  return __atomic_load_n(&word, __ATOMIC_ACQUIRE);
}
template <typename T>
SEEMALLOC_ALWAYS_INLINE void store_relaxed(T& word, T value) {
  __atomic_store_n(&word, value, __ATOMIC_RELAXED);
}
template <typename T>
SEEMALLOC_ALWAYS_INLINE void store_release(T& word, T value) {
  __atomic_store_n(&word, value, __ATOMIC_RELEASE);
}

}  // namespace seemalloc

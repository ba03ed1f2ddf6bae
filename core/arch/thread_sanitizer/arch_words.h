// Words in memory, as ThreadSanitizer must see them: each racing access is atomic. The build
// selects this file: core/arch/README.md. The contracts of the functions are in
// ../x86_64/arch_words.h.
#pragma once

#include "core/arch/generic/portable_words.h"
#include "core/base/compiler.h"

namespace seemalloc {

template <typename T>
SEEMALLOC_ALWAYS_INLINE T racy_load(const T& word) {
  return __atomic_load_n(&word, __ATOMIC_ACQUIRE);
}

template <typename T>
SEEMALLOC_ALWAYS_INLINE void racy_store(T& word, T value) {
  __atomic_store_n(&word, value, __ATOMIC_RELEASE);
}

}  // namespace seemalloc

// Words in memory, on any processor. The build selects this file: core/arch/README.md. The
// contracts of the functions are in ../x86_64/arch_words.h.
#pragma once

#include "core/arch/generic/portable_words.h"
#include "core/base/compiler.h"

namespace seemalloc {

template <typename T>
SEEMALLOC_ALWAYS_INLINE T racy_load(const T& word) {
  return word;
}

template <typename T>
SEEMALLOC_ALWAYS_INLINE void racy_store(T& word, T value) {
  word = value;
}

}  // namespace seemalloc

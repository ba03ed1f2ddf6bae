// The words of arch_words.h that need no variant but x86-64's. The contracts of the functions are
// in ../x86_64/arch_words.h.
#pragma once

#include <cstdint>

#include "core/base/compiler.h"

namespace seemalloc {

SEEMALLOC_ALWAYS_INLINE bool decrement_release(uint32_t& word) {
  uint32_t left = word - 1;
  __atomic_store_n(&word, left, __ATOMIC_RELEASE);
  return left == 0;
}

SEEMALLOC_ALWAYS_INLINE bool decrement_below_zero(uint32_t& word) { return word-- == 0; }

SEEMALLOC_ALWAYS_INLINE void prefetch_for_write(const void* p) { __builtin_prefetch(p, 1); }

}  // namespace seemalloc

// malloc's pop: the head of one of the calling thread's free lists, on any processor.
// The build selects this file: core/arch/README.md.
#pragma once

#include <cstddef>

#include "core/arch/generic/portable_pop.h"
#include "core/base/compiler.h"
#include "core/heap/thread/thread_cache.h"

namespace seemalloc {

// Pops the first block of the class's free list; null if it is empty.
SEEMALLOC_ALWAYS_INLINE Block* pop_free_list(size_t size_class) {
  return pop_first(heap::thread_cache.heads[size_class]);
}

}  // namespace seemalloc

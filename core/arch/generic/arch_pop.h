// malloc's pop: the head of one of the calling thread's free lists, on any processor.
// The build selects this file: core/arch/README.md.
#pragma once

#include <arch_words.h>

#include <cstddef>

#include "core/base/compiler.h"
#include "core/heap/thread/thread_cache.h"

namespace seemalloc {

// Pops the first block of the class's free list; null if it is empty.
SEEMALLOC_ALWAYS_INLINE Block* pop_free_list(size_t size_class) {
  Block** head = &heap::thread_cache.heads[size_class];
  Block* block = *head;
  if (SEEMALLOC_UNLIKELY(block == nullptr)) return nullptr;
  Block* next = block->next;
  racy_store(*head, next);      // other threads may be counting the list
  __builtin_prefetch(next, 1);  // it is allocated next; prefetching null does no harm
  return block;
}

}  // namespace seemalloc

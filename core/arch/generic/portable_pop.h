// malloc's pop, for any type of word and block. Model tests run it with the words of a model.
#pragma once

#include <arch_words.h>

#include "core/base/compiler.h"
#include "core/base/shared_words.h"

namespace seemalloc {

// Pops the first block of a free list; null if it is empty.
template <typename Head>
SEEMALLOC_ALWAYS_INLINE auto pop_first(Head& head) -> decltype(load_own(head)) {
  auto* block = load_own(head);
  if (SEEMALLOC_UNLIKELY(block == nullptr)) return nullptr;
  decltype(block) next = block->next;
  racy_store(head, next);       // other threads may be counting the list
  __builtin_prefetch(next, 1);  // it is allocated next; prefetching null does no harm
  return block;
}

}  // namespace seemalloc

// malloc's pop: the head of one of the calling thread's free lists, on x86-64.
// The build selects this file: core/arch/README.md.
//
// Each malloc loads the value that the previous malloc stored. Processors with memory renaming
// forward the value without delay if both instructions address it through the same single register.
// With base-and-index addressing the load takes its usual four or five cycles. So the code first
// computes the address, relative to the thread pointer, in one register. Figures:
// docs/decisions/0056.
#pragma once

#include <cstddef>

#include "core/base/compiler.h"
#include "core/heap/thread/thread_cache.h"

namespace seemalloc {

// Pops the first block of the class's free list; null if it is empty.
SEEMALLOC_ALWAYS_INLINE Block* pop_free_list(size_t size_class) {
  size_t head;
  __asm__("movq " SEEMALLOC_THREAD_CACHE_SYMBOL "@gottpoff(%%rip), %0" : "=r"(head));
  head += offsetof(heap::ThreadCache, heads) + size_class * sizeof(Block*);
  __asm__("" : "+r"(head));  // one register
  Block* block;
  __asm__ volatile("movq %%fs:(%1), %0" : "=r"(block) : "r"(head) : "memory");
  if (SEEMALLOC_UNLIKELY(block == nullptr)) return nullptr;
  Block* next = block->next;
  __asm__ volatile("movq %0, %%fs:(%1)" : : "r"(next), "r"(head) : "memory");
  // The next block is allocated next; prefetching null does no harm.
  __asm__ volatile("prefetchw %0" : : "m"(*reinterpret_cast<const char*>(next)));
  return block;
}

}  // namespace seemalloc

// The head of one of the calling thread's free lists, as malloc's fast path reads and writes it.
//
// Each malloc loads the value that the previous malloc stored. Processors with memory renaming forward the value
// without delay if both instructions address it through the same single register. With base-and-index addressing the
// load takes its usual four or five cycles. So on x86-64 the code first computes the address, relative to the thread
// pointer, in one register. Figures: docs/decisions/0056.
#pragma once

#include <cstddef>

#include "core/base/compiler.h"
#include "core/heap/thread_heap.h"

namespace seemalloc::heap {

#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__)

class ListHead {
 public:
  SEEMALLOC_ALWAYS_INLINE explicit ListHead(size_t size_class) {
    size_t cache;
    __asm__("movq " SEEMALLOC_THREAD_CACHE_SYMBOL "@gottpoff(%%rip), %0" : "=r"(cache));
    offset_ = cache + offsetof(ThreadCache, heads) + size_class * sizeof(Block*);
    __asm__("" : "+r"(offset_));  // one register
  }
  SEEMALLOC_ALWAYS_INLINE Block* first() const {
    Block* block;
    __asm__ volatile("movq %%fs:(%1), %0" : "=r"(block) : "r"(offset_) : "memory");
    return block;
  }
  SEEMALLOC_ALWAYS_INLINE void set(Block* block) { __asm__ volatile("movq %0, %%fs:(%1)" : : "r"(block), "r"(offset_) : "memory"); }

 private:
  size_t offset_;
};

#else

class ListHead {
 public:
  SEEMALLOC_ALWAYS_INLINE explicit ListHead(size_t size_class) : head_(&thread_cache.heads[size_class]) {}
  SEEMALLOC_ALWAYS_INLINE Block* first() const { return *head_; }
  SEEMALLOC_ALWAYS_INLINE void set(Block* block) { store_racing(*head_, block); }

 private:
  Block** head_;
};

#endif

}  // namespace seemalloc::heap

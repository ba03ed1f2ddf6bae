// The fast paths of malloc and free. Each leaves for a slow path through a single test: malloc
// where a list ends, free where the span's owner is not this thread's heap.
//
// Included by malloc.cc and operators.cc. Budget: malloc ≤ 15 instructions, free ≤ 19 for 64 B.
#pragma once

#include <arch_pop.h>
#include "core/api/malloc/slow_path.h"
#include "core/base/compiler.h"
#include "core/heap/slow_paths/owner_paths.h"
#include "core/heap/thread/size_class.h"
#include "core/heap/thread/thread_cache.h"
#include "core/heap/thread/thread_heap.h"
#include "core/pages/span/window.h"

namespace seemalloc {

// A block of the class; `bytes` is the requested size, for the sampler.
SEEMALLOC_ALWAYS_INLINE void* allocate_from(size_t size_class, size_t bytes) {
  Block* block = pop_free_list(size_class);
  return SEEMALLOC_LIKELY(block != nullptr) ? block : allocate_slow(bytes, size_class);
}

SEEMALLOC_ALWAYS_INLINE void* allocate(size_t bytes) {
  if (SEEMALLOC_LIKELY(bytes <= heap::kTinyTableMax))
    return allocate_from(heap::kTinyTable[(bytes + 7) / 8], bytes);
  if (bytes <= heap::kMaxSmallBytes)
    return allocate_from(heap::kSmallTable[(bytes + 127) / 128], bytes);
  return allocate_large_slow(bytes);
}

SEEMALLOC_ALWAYS_INLINE bool is_small(size_t bytes, size_t alignment) {
  return SEEMALLOC_LIKELY(alignment <= kPageBytes && bytes <= heap::kMaxSmallBytes);
}

// Requires: an alignment that is a power of two.
SEEMALLOC_ALWAYS_INLINE void* allocate_aligned(size_t bytes, size_t alignment) {
  if (!is_small(bytes, alignment)) return allocate_aligned_slow(bytes, alignment);
  return allocate_from(heap::aligned_class_of(bytes, alignment), bytes);
}

SEEMALLOC_ALWAYS_INLINE void deallocate_in(pages::Span* span, void* p) {
  heap::ThreadHeap* heap = heap::thread_cache.heap;
  if (SEEMALLOC_UNLIKELY(span->owner() != heap)) return deallocate_slow(p, span);
  Block* block = static_cast<Block*>(p);
  if (SEEMALLOC_UNLIKELY(span->local_free == block)) return report_misuse_slow("double free", p);
  span->push_local_free(block);
  if (SEEMALLOC_UNLIKELY(span->count_down())) heap::span_countdown_slow(*heap, span);
}

SEEMALLOC_ALWAYS_INLINE void deallocate(void* p) {
  size_t page = pages::window.page_of(p);
  if (SEEMALLOC_UNLIKELY(page >= pages::window.pages())) return deallocate_outside_window(p);
  deallocate_in(pages::window.span_at(page), p);
}

}  // namespace seemalloc

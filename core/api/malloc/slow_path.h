// The slow paths that the fast paths enter when a list ends or a span is not the thread's own:
// refill, samples, large blocks, remote, foreign and invalid pointers. The only code that sees both
// the heap and the profiler.
//
// Threads: any. errno is only set on failure. The functions that the fast paths tail-call are
// noexcept, so that the operators, compiled with exceptions, need no frame for them.
#pragma once

#include <cstddef>

#include "core/api/malloc/heap_limit.h"
#include "core/base/check.h"
#include "core/base/compiler.h"
#include "core/pages/span/span.h"

namespace seemalloc {

namespace heap {
struct ThreadHeap;
}

// The free list of the class is empty (its number is as wide as the index: malloc need not convert
// it). Null with ENOMEM when out of memory.
SEEMALLOC_NOINLINE void* allocate_slow(size_t bytes, size_t size_class) noexcept;
// Requires: bytes > heap::kMaxSmallBytes.
SEEMALLOC_NOINLINE void* allocate_large_slow(size_t bytes) noexcept;
// The same, zeroed; does not clear memory known to be zero.
void* allocate_zeroed_large(size_t bytes);
// Requires: bytes > heap::kMaxSmallBytes, or an alignment larger than one of our pages.
void* allocate_aligned_slow(size_t bytes, size_t alignment) noexcept;
// A pointer outside the window of regions: null, foreign, huge, or in a region that did not fit
// into the window.
SEEMALLOC_NOINLINE void deallocate_outside_window(void* p) noexcept;
// A pointer whose span this thread does not own: remote, large, sampled, null, foreign or invalid.
SEEMALLOC_NOINLINE void deallocate_slow(void* p, pages::Span* span) noexcept;

// fatal() as a call that appears to return: the fast path needs no stack frame for it.
SEEMALLOC_COLD void report_misuse_slow(const char* kind, void* p) noexcept;

// Like realloc and malloc_usable_size; p is not null.
void* reallocate(void* p, size_t bytes);
size_t usable_bytes(void* p);
// Resizes the block to the requested size if that is possible in place; returns its size
// afterwards.
size_t resize_without_moving(void* p, size_t bytes);

// The calling thread's heap, created on first use; null when the thread is past its destructors or
// memory is refused.
heap::ThreadHeap* thread_heap();

// Alive while a slow path calls a function that may call malloc: pthread_setspecific. The stack may
// be small, so these inner calls leave out all work that can wait: they are not sampled or traced,
// do not check for memory pressure, and start no helper thread.
class ScopedNestedCall {
 public:
  ScopedNestedCall();
  ~ScopedNestedCall();
  ScopedNestedCall(const ScopedNestedCall&) = delete;
  ScopedNestedCall& operator=(const ScopedNestedCall&) = delete;

 private:
  heap::ThreadHeap* heap_;
  void* recorder_;
  bool before_;
  NonFatalScope may_fail_;
};

}  // namespace seemalloc

// Where the fast paths go when a list ends or a span is not the thread's own: refill, samples, large blocks, remote,
// foreign and invalid pointers. The only code that sees both the heap and the profiler.
//
// Threads: any. errno is only set on failure. What the fast paths end in is noexcept, so that the operators, compiled with
// exceptions, need no frame for it.
#pragma once

#include <cstddef>

#include "core/api/heap_limit.h"
#include "core/base/check.h"
#include "core/base/compiler.h"
#include "core/pages/span.h"

namespace seemalloc {

namespace heap {
struct ThreadHeap;
}

// The malloc list of the class is empty (its number as wide as the index it is: malloc need not convert it). Null with ENOMEM when out of memory.
SEEMALLOC_NOINLINE void* allocate_slow(size_t bytes, size_t size_class) noexcept;
// More than heap::kMaxSmallBytes.
SEEMALLOC_NOINLINE void* allocate_large_slow(size_t bytes) noexcept;
// The same, zeroed; skips clearing memory known to be zero.
void* allocate_zeroed_large(size_t bytes);
// More than heap::kMaxSmallBytes, or its start aligned to more than a page of ours.
void* allocate_aligned_slow(size_t bytes, size_t alignment) noexcept;
// A pointer outside the window of regions: null, foreign, huge, or in a region that it had no place for.
SEEMALLOC_NOINLINE void deallocate_outside(void* p) noexcept;
// A pointer whose span this thread does not own: remote, large, sampled, null, foreign or invalid.
SEEMALLOC_NOINLINE void deallocate_slow(void* p, pages::Span* span) noexcept;

// fatal() as a call that seems to return: the fast path needs no stack frame for it.
SEEMALLOC_COLD void report_misuse_slow(const char* kind, void* p) noexcept;

// As realloc and malloc_usable_size; p is not null.
void* reallocate(void* p, size_t bytes);
size_t usable_bytes(void* p);
// Has the block as long as asked for where that can be done where it is; returns how long it is then.
size_t resize_without_moving(void* p, size_t bytes);

// The calling thread's heap, made on first use; null when it is past its destructors or memory is refused.
heap::ThreadHeap* thread_heap();

// Alive while a slow path calls a function that may call malloc: pthread_setspecific. The stack may be small, so these
// inner calls leave out all work that can wait: they are not sampled or traced, do not look for pressure, and start no helper.
class InnerCalls {
 public:
  InnerCalls();
  ~InnerCalls();
  InnerCalls(const InnerCalls&) = delete;
  InnerCalls& operator=(const InnerCalls&) = delete;

 private:
  heap::ThreadHeap* heap_;
  void* recorder_;
  bool before_;
  MayFail may_fail_;
};

}  // namespace seemalloc

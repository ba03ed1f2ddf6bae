// ThreadCache: the thread-local part of a heap, which is everything that malloc's fast path
// touches.
// Threads: its owner's. Others read it only as orphaned_heaps.h describes.
#pragma once

#include <cstddef>

#include "core/heap/thread/size_class.h"
#include "core/pages/span/span.h"

namespace seemalloc::heap {

struct ThreadHeap;

// The thread-local part: everything that malloc touches. It starts as all zeros. A new thread, or
// code that runs before thread-local memory is initialised (ifunc resolvers), finds every list
// empty and so enters the slow path.
struct ThreadCache {
  ThreadHeap* heap = nullptr;
  Block* heads[kClassCount] = {};
  bool finished = false;  // the thread's heap is gone: the thread is past its last destructors
};
#define SEEMALLOC_THREAD_CACHE_SYMBOL "seemalloc_thread_cache"  // addressed in assembly
extern constinit thread_local ThreadCache thread_cache __asm__(SEEMALLOC_THREAD_CACHE_SYMBOL)
    __attribute__((tls_model("initial-exec")));

}  // namespace seemalloc::heap

// Helper link: what core/heap knows of the helper thread, which is above it in core/api.
// Threads: any; atomic.
#pragma once

#include <atomic>

#include "core/base/compiler.h"

namespace seemalloc::heap {

// Called by slow paths of free, with no lock held, in a child of fork that has no helper thread
// yet; otherwise null. Set by core/api.
extern std::atomic<void (*)()> on_slow_free SEEMALLOC_HIDDEN;
inline void note_slow_free() {
  if (void (*notice)() = on_slow_free.load(std::memory_order_relaxed);
      SEEMALLOC_UNLIKELY(notice != nullptr))
    notice();
}

// The helper thread, identified by the address of its thread_cache. If there is one, slow paths
// leave the work of purge_holes_if_due() to it.
extern std::atomic<const void*> hole_helper_thread;

}  // namespace seemalloc::heap

#include "core/heap/maintenance/orphaned_heaps.h"

#include "core/base/check.h"
#include "core/heap/thread/thread_cache.h"
#include "core/os/kernel/read_memory.h"
#include "core/os/process/threads.h"

namespace seemalloc::heap {

namespace {

// Returns false if the memory does not name the heap.
#if defined(__SANITIZE_THREAD__)
// TSan has to see the loads that pair with the stores. No test loses a thread under TSan, so here
// the heap's name may be read first.
bool copy(const ThreadCache* cache, const ThreadHeap* heap, unsigned first, unsigned count,
          Block** lists) {
  if (__atomic_load_n(&cache->heap, __ATOMIC_ACQUIRE) != heap) return false;
  for (unsigned i = 0; i < count; i++)
    lists[i] = __atomic_load_n(&cache->heads[first + i], __ATOMIC_ACQUIRE);
  return true;
}
#else
bool copy(const ThreadCache* cache, const ThreadHeap* heap, unsigned first, unsigned count,
          Block** lists) {
  if (cache == &thread_cache) {
    for (unsigned i = 0; i < count; i++) lists[i] = cache->heads[first + i];
    return cache->heap == heap;
  }
  const ThreadHeap* named = nullptr;
  // In this order: the second copy begins after the first has ended.
  const os::MemoryRead reads[] = {
      {reinterpret_cast<uintptr_t>(&cache->heads[first]), lists, count * sizeof(*lists)},
      {reinterpret_cast<uintptr_t>(&cache->heap), &named, sizeof(named)}};
  bool there = os::read_memory(reads, 2);
  // Pairs with refill_from_local_frees and adopt_heap.
  std::atomic_thread_fence(std::memory_order_acquire);
  return there && named == heap;
}
#endif

bool copy_free_list_range(const ThreadHeap& heap, unsigned first, unsigned count, Block** lists) {
  const ThreadCache* cache = heap.cache.load(std::memory_order_acquire);
  if (cache != &heap.body->saved_lists)
    return cache != nullptr && copy(cache, &heap, first, count, lists);
  for (unsigned i = 0; i < count; i++)
    lists[i] = __atomic_load_n(&cache->heads[first + i], __ATOMIC_RELAXED);
  return true;
}

}  // namespace

bool copy_free_lists(const ThreadHeap& heap, Block* (&lists)[kClassCount]) {
  return copy_free_list_range(heap, 0, kClassCount, lists);
}

bool copy_free_list(const ThreadHeap& heap, unsigned size_class, Block** list) {
  return copy_free_list_range(heap, size_class, 1, list);
}

void copy_lists_from_thread(ThreadHeap& heap) {
  DCHECK(&heap != thread_cache.heap);
  ThreadCache& kept = heap.body->saved_lists;
  bool its = copy_free_lists(heap, kept.heads);
  heap.cache.store(its ? &kept : nullptr, std::memory_order_release);
}

bool thread_has_exited(const ThreadHeap& heap, int this_process) {
  bool adopted_here = heap.process_id.load(std::memory_order_relaxed) == this_process;
  bool has_thread = heap.state.load(std::memory_order_relaxed) == HeapState::kActive &&
                    heap.cache.load(std::memory_order_relaxed) != nullptr &&
                    &heap != thread_cache.heap;
  if (!adopted_here || !has_thread || os::is_thread(heap.thread_id.load(std::memory_order_relaxed)))
    return false;
  // The thread's writes are visible from here on.
  std::atomic_thread_fence(std::memory_order_acquire);
  return true;
}

}  // namespace seemalloc::heap

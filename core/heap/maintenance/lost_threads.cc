#include "core/heap/maintenance/lost_threads.h"

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
  const os::MemoryPiece pieces[] = {
      {reinterpret_cast<uintptr_t>(&cache->heads[first]), lists, count * sizeof(*lists)},
      {reinterpret_cast<uintptr_t>(&cache->heap), &named, sizeof(named)}};
  bool there = os::read_memory(pieces, 2);
  std::atomic_thread_fence(std::memory_order_acquire);  // pairs with take_freed and adopt_heap
  return there && named == heap;
}
#endif

bool read_some_lists(const ThreadHeap& heap, unsigned first, unsigned count, Block** lists) {
  const ThreadCache* cache = heap.cache.load(std::memory_order_acquire);
  if (cache != &heap.body->kept) return cache != nullptr && copy(cache, &heap, first, count, lists);
  for (unsigned i = 0; i < count; i++)
    lists[i] = __atomic_load_n(&cache->heads[first + i], __ATOMIC_RELAXED);
  return true;
}

}  // namespace

bool read_lists(const ThreadHeap& heap, Block* (&lists)[kClassCount]) {
  return read_some_lists(heap, 0, kClassCount, lists);
}

bool read_list(const ThreadHeap& heap, unsigned size_class, Block** list) {
  return read_some_lists(heap, size_class, 1, list);
}

void take_over_lists(ThreadHeap& heap) {
  DCHECK(&heap != thread_cache.heap);
  ThreadCache& kept = heap.body->kept;
  bool its = read_lists(heap, kept.heads);
  heap.cache.store(its ? &kept : nullptr, std::memory_order_release);
}

bool has_lost_its_thread(const ThreadHeap& heap, int this_process) {
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

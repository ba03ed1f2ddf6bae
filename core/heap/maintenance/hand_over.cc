#include "core/heap/maintenance/hand_over.h"

#include <string.h>

#include "core/base/check.h"
#include "core/heap/spans/owned_spans.h"
#include "core/heap/spans/publish.h"
#include "core/heap/spans/remote_protocol.h"
#include "core/heap/spans/small_span.h"
#include "core/heap/thread/sample_distance.h"
#include "core/heap/thread/size_class.h"
#include "core/heap/thread/thread_cache.h"

namespace seemalloc::heap {

namespace {

// Returns the number of blocks that the list had.
uint32_t return_list_locked(ThreadHeap& heap, Span* span, Block** head) {
  uint32_t count = 0;
  Block* last = nullptr;
  for (Block* block = *head; block != nullptr; block = block->next, count++) last = block;
  DCHECK(count == 0 || span != nullptr);
  if (count != 0) return_blocks_locked(heap, span, {*head, last}, count);
  *head = nullptr;
  return count;
}

// Returns the blocks of the thread free list and the stash to their span.
void return_lists_locked(ThreadHeap& heap, unsigned size_class) {
  ClassState& cs = heap.body->classes[size_class];
  DCHECK(heap.slow_lock.is_held());
  DCHECK(!cs.lists_not_from_current || cs.stash == nullptr);
  Span* span = cs.current;
  uint64_t unused = cs.sample_due != 0 ? 1 : 0;
  cs.sample_due = 0;
  heap.body->local_refill_spans[size_class] = nullptr;
  // null: lost with its thread, or by a fork.
  ThreadCache* cache = heap.cache.load(std::memory_order_relaxed);
  if (cache != nullptr) unused += return_list_locked(heap, span, &cache->heads[size_class]);
  if (unused != 0) count_unused_bytes(unused * kClasses[size_class].bytes);
  return_list_locked(heap, span, &cs.stash);
  cs.stash_count = 0;
  cs.current = nullptr;
  if (span != nullptr) add_owned_span_locked(heap, span);
}

}  // namespace

void release_everything(ThreadHeap& heap) {
  DCHECK(heap.state.load(std::memory_order_relaxed) != HeapState::kZombie);
  publish_gathered_lists(heap);
  LockGuard guard(heap.slow_lock);
  for (unsigned c = 0; c < kClassCount; c++) return_lists_locked(heap, c);
  release_spans_locked(heap);
  for (unsigned c = 0; c < kClassCount; c++) flush_refill_count(heap, c);
  heap.cache.store(nullptr, std::memory_order_relaxed);
  set_cached_bytes(heap, 0);
  DCHECK(heap.gathered_bytes == 0 && heap.cached_bytes == 0);
  become_zombie(heap, [&] { release_spans_locked(heap); });
}

// ---- a heap between two threads ----

namespace {

// Bytes of all spans of the heap. Stops counting above `most`, and then returns a number that is
// larger than `most`.
size_t span_bytes(const ThreadHeap& heap, size_t most) {
  size_t bytes = 0;
  for (const ClassState& cs : heap.body->classes) {
    if (cs.current != nullptr) bytes += cs.current->bytes;
    for (const SpanList* list : {&cs.available, &cs.full}) {
      for (const Span* span = list->front(); span != nullptr; span = span->next) {
        if ((bytes += span->bytes) > most) return bytes;
      }
    }
  }
  return bytes;
}

// Releases the empty available spans of classes that have a current span, because the next thread
// does not need them.
void release_spare_spans(ThreadHeap& heap) {
  for (ClassState& cs : heap.body->classes) {
    Span* span = cs.available.front();
    if (cs.current == nullptr || span == nullptr || !span->is_empty()) continue;
    remove_available(cs, span);
    release_empty_span(span);
  }
}

}  // namespace

void detach_from_this_thread(ThreadHeap& heap) {
  DCHECK(heap.slow_lock.is_held());
  DCHECK(thread_cache.heap == &heap && heap.cache.load(std::memory_order_relaxed) == &thread_cache);
  ThreadCache& saved_lists = heap.body->saved_lists;
  memcpy(saved_lists.heads, thread_cache.heads, sizeof(saved_lists.heads));
  memset(thread_cache.heads, 0, sizeof(thread_cache.heads));
  heap.cache.store(&saved_lists, std::memory_order_release);
  __atomic_store_n(&thread_cache.heap, nullptr, __ATOMIC_RELAXED);
}

bool try_keep_for_next_thread(ThreadHeap& heap, size_t most_bytes) {
  LockGuard guard(heap.slow_lock);
  drain_pending_locked(heap);
  release_spare_spans(heap);
  size_t bytes = span_bytes(heap, most_bytes);
  if (bytes > most_bytes) return false;
  heap.abandoned_bytes = static_cast<uint32_t>(bytes);
  // Keeps the lists as they are: returning the blocks to their spans would touch each of them
  // (docs/decisions/0057).
  detach_from_this_thread(heap);
  return true;
}

void attach_to_this_thread(ThreadHeap& heap) {
  DCHECK(thread_cache.heap == nullptr &&
         heap.state.load(std::memory_order_relaxed) == HeapState::kActive);
  LockGuard guard(heap.slow_lock);
  ThreadCache& saved_lists = heap.body->saved_lists;
  heap.body->inherited_bytes = 0;
  heap.body->growth_steps_seen = 0;
  if (heap.cache.load(std::memory_order_relaxed) == &saved_lists) {
    memcpy(thread_cache.heads, saved_lists.heads, sizeof(saved_lists.heads));
  } else {
    heap.body->sample_changes_of_lists = sample_changes.load(std::memory_order_relaxed);
  }
  // The thread's memory has been initialised: other threads may read it.
  heap.cache.store(&thread_cache, std::memory_order_release);
  __atomic_store_n(&thread_cache.heap, &heap, __ATOMIC_RELEASE);  // pairs with copy_free_lists()
}

}  // namespace seemalloc::heap

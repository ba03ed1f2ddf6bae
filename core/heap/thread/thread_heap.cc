#include "core/heap/thread/thread_heap.h"

#include <utility>

#include "core/base/compiler.h"

namespace seemalloc::heap {

namespace {
Lock registry;
std::atomic<ThreadHeap*> first_heap{nullptr};
std::atomic<unsigned> active{0};
}  // namespace

ThreadHeap* all_heaps() { return first_heap.load(std::memory_order_acquire); }
unsigned active_heaps() { return active.load(std::memory_order_relaxed); }
Lock& registry_lock() { return registry; }

void add_to_all_heaps(ThreadHeap* heap) {
  DCHECK(registry.is_held());
  heap->next_all = first_heap.load(std::memory_order_relaxed);
  first_heap.store(heap, std::memory_order_release);
}

void count_active_heaps(int by) {
  DCHECK(registry.is_held());
  active.fetch_add(static_cast<unsigned>(by), std::memory_order_relaxed);
}

// ---- counters ----

namespace {

std::atomic<uint64_t> flushed[kClassCount];

// Lists that refill_from_local_frees and refill_from_available_span have handed out since the last
// refill. A counter that has wrapped below zero has ended and counts as 0.
SEEMALLOC_NO_TSAN uint32_t lists_since_refill(const ThreadHeap& heap, unsigned size_class) {
  uint32_t at_first = heap.body->local_refills_granted[size_class],
           left = heap.body->local_refills_left[size_class];
  return left <= at_first ? at_first - left : at_first;
}

void set_local_refills(ThreadHeap& heap, unsigned size_class, uint16_t lists) {
  heap.body->local_refills_granted[size_class] = lists;
  heap.body->local_refills_left[size_class] = lists;
}

}  // namespace

void flush_refill_count(ThreadHeap& heap, unsigned size_class) {
  uint64_t refills = refills_of(heap, size_class);
  if (refills == 0) return;
  flushed[size_class].fetch_add(refills, std::memory_order_relaxed);
  heap.body->classes[size_class].refills = 0;
  set_local_refills(heap, size_class, 0);
}

void count_refill(ThreadHeap& heap, unsigned size_class, uint16_t lists) {
  constexpr uint32_t kMax = uint32_t{1} << 31;
  ClassState& cs = heap.body->classes[size_class];
  cs.refills += 1 + lists_since_refill(heap, size_class);
  if (SEEMALLOC_UNLIKELY(cs.refills >= kMax))
    flushed[size_class].fetch_add(std::exchange(cs.refills, 0), std::memory_order_relaxed);
  set_local_refills(heap, size_class, lists);
}

uint64_t flushed_refills(unsigned size_class) {
  return flushed[size_class].load(std::memory_order_relaxed);
}
void forget_refills_in_child() {
  for (ThreadHeap* heap = all_heaps(); heap != nullptr; heap = heap->next_all) {
    if (heap->state.load(std::memory_order_relaxed) == HeapState::kZombie) continue;
    for (unsigned c = 0; c < kClassCount; c++) {
      // local_refills_left, the number of lists that refill_from_local_frees may still hand out, is
      // not changed: fork may have interrupted refill_from_local_frees.
      heap->body->classes[c].refills = 0;
      heap->body->local_refills_granted[c] -= static_cast<uint16_t>(lists_since_refill(*heap, c));
    }
  }
  for (std::atomic<uint64_t>& refills : flushed) refills.store(0, std::memory_order_relaxed);
}
uint64_t refills_of(const ThreadHeap& heap, unsigned size_class) {
  return uint64_t{heap.body->classes[size_class].refills} + lists_since_refill(heap, size_class);
}

namespace {
std::atomic<uint64_t> unused_returned{0};
std::atomic<size_t> cached_total{0};
// Counts those of threads without a heap.
std::atomic<uint64_t> heapless_remote_frees{0};
}  // namespace

uint64_t unused_bytes_of_ended_threads() { return unused_returned.load(std::memory_order_relaxed); }
void count_unused_bytes(uint64_t bytes) {
  unused_returned.fetch_add(bytes, std::memory_order_relaxed);
}

size_t cached_bytes_total() { return cached_total.load(std::memory_order_relaxed); }

void set_cached_bytes(ThreadHeap& heap, size_t bytes) {
  cached_total.fetch_add(bytes - heap.cached_bytes, std::memory_order_relaxed);
  heap.cached_bytes = bytes;
}

void count_remote_frees(ThreadHeap* heap, uint32_t blocks) {
  DCHECK(blocks <= kMaxGatheredBlocks);
  if (heap == nullptr) {
    heapless_remote_frees.fetch_add(blocks, std::memory_order_relaxed);
  } else {
    uint64_t before = heap->remote_frees.load(std::memory_order_relaxed);
    // No other thread writes it.
    heap->remote_frees.store(before + blocks, std::memory_order_relaxed);
  }
}

uint64_t remote_frees() {
  uint64_t sum = heapless_remote_frees.load(std::memory_order_relaxed);
  for (ThreadHeap* heap = all_heaps(); heap != nullptr; heap = heap->next_all) {
    sum += heap->remote_frees.load(std::memory_order_relaxed);
  }
  return sum;
}

void forget_heapless_remote_frees_in_child() {
  heapless_remote_frees.store(0, std::memory_order_relaxed);
}

}  // namespace seemalloc::heap

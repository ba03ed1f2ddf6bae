#include "core/heap/thread/sample_distance.h"

namespace seemalloc::heap {

namespace {
void never_sample(ThreadHeap& heap, DrawReason) { heap.sample_at = UINT64_MAX; }
}  // namespace

void (*draw_sample_distance)(ThreadHeap& heap, DrawReason reason) = never_sample;

namespace {
constexpr uint64_t kOptionChange = uint64_t{1} << 32;
}
std::atomic<uint64_t> sample_changes{kOptionChange};
std::atomic<bool> sample_distances_backed_off{false};

void redraw_sample(ThreadHeap& heap) {
  uint64_t changes = sample_changes.load(std::memory_order_relaxed);
  if (changes / kOptionChange == heap.sample_changes / kOptionChange) return;
  heap.sample_changes = changes;
  for (unsigned c = 0; c < kClassCount; c++) {
    ClassState& cs = heap.body->classes[c];
    if (cs.sample_due != 0) count_unused_bytes(kClasses[c].bytes);
    cs.sample_due = 0;
  }
  draw_sample_distance(heap, DrawReason::kIntervalChanged);
}

void reduce_sample_backoff(ThreadHeap& heap) {
  uint64_t changes = sample_changes.load(std::memory_order_relaxed);
  // redraw_sample does it.
  if (changes / kOptionChange != heap.sample_changes / kOptionChange) return;
  heap.sample_changes = changes;
  draw_sample_distance(heap, DrawReason::kBackoffMayEnd);
}

void invalidate_sample_distances() {
  sample_changes.fetch_add(kOptionChange, std::memory_order_relaxed);
}

void redraw_backed_off_samples() {
  if (sample_distances_backed_off.exchange(false, std::memory_order_relaxed))
    sample_changes.fetch_add(1, std::memory_order_relaxed);
}

bool large_sample_due(ThreadHeap& heap, size_t bytes) {
  redraw_if_stale(heap);
  reduce_backoff_if_due(heap);
  heap.allocated_bytes += bytes;
  if (SEEMALLOC_LIKELY(heap.allocated_bytes < heap.sample_at)) return false;
  heap.drawn_interval = heap.sample_base << heap.sample_backoff_log2;
  draw_sample_distance(heap, DrawReason::kSampled);
  return true;
}

bool has_stale_lists(const ThreadHeap& heap) {
  return heap.body->sample_changes_of_lists / kOptionChange !=
         sample_changes.load(std::memory_order_relaxed) / kOptionChange;
}

}  // namespace seemalloc::heap
